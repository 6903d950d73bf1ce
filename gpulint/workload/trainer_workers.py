"""Trainers of Hugging Face whose samples are prepared in the training process, as they are unless workers are set."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value, passed_as
from gpulint.documents.python import walk
from gpulint.launch.job_index import JobIndex
from gpulint.placement.dataset_parts import held_by, made_from
from gpulint.placement.host_to_device import HostToDevice
from gpulint.placement.inner_sets import LAZY
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_flow import LoaderFlow
from gpulint.workload.gpu_samples import moving_calls, part_of
from gpulint.workload.sample_preprocessing import TOKENISES, SamplePreprocessing
from gpulint.workload.sent_parts import defined_in_notebook, spawns_at_home, unpicklable
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

ARGUMENTS = regex.compile(r"TrainingArguments$|^(SFT|DPO|ORPO|KTO|CPO|Reward)Config$")
"""Arguments of Hugging Face's trainers."""
_TRAINER = regex.compile(r"Trainer$")
_FAMILY = ("transformers.", "trl.")
_DATA = {"data_collator": ("__call__", "torch_call"), "train_dataset": ("__getitem__",)}
"""Parameters of a trainer, and the methods of what they get that run for each sample or batch."""
_CONTAINERS = frozenset({"dict", "list", "tuple", "BatchFeature", "BatchEncoding"})
"""What a batch is made of."""


@dataclass(frozen=True, slots=True)
class UnhelpedTrainer:
    """Arguments that set no workers, the trainer that gets them, and the call of a collator or data set that the
    training process therefore makes. ``moves`` are calls that move what these make to the GPU, which workers can't."""

    arguments: NodeRef
    trainer: NodeRef
    step: NodeRef
    work: str
    moves: tuple[NodeRef, ...] = ()


def trainers_without_workers(project: Project, module: ModuleIndex) -> Iterator[UnhelpedTrainer]:
    """Arguments of a module for trainers that prepare images, audio or video without workers."""
    for call in module.calls:
        if not ARGUMENTS.search(last_name(call.func)) or _sets_workers(call):
            continue
        names = project.fact(Resolver).call_names(module, call)
        if not any(name.startswith(_FAMILY) for name in names):
            continue
        for trainer in trainers_of(project, NodeRef(module, call)):
            if _cannot_be_sent(project, trainer):
                continue
            if (found := _prepares(project, trainer)) is not None:
                yield UnhelpedTrainer(NodeRef(module, call), trainer, *found)
                break


def _cannot_be_sent(project: Project, trainer: NodeRef) -> bool:
    """Return whether workers of a program that was written on macOS or Windows cannot get what the trainer hands to
    them."""
    if project.fact(JobIndex).launches_of(trainer.module.path) or not spawns_at_home(project, trainer.module):
        return False
    names = tuple(_DATA)
    return bool(unpicklable(project, trainer, names) or defined_in_notebook(project, trainer, names))


def _sets_workers(arguments: ast.Call) -> bool:
    return any(keyword.arg in (None, "dataloader_num_workers") for keyword in arguments.keywords)


def trainers_of(project: Project, arguments: NodeRef) -> Iterator[NodeRef]:
    """Trainers that get the arguments, in their module or in those that import it or are imported."""
    home = arguments.module
    resolver = project.fact(Resolver)
    for path in dict.fromkeys((home.path, *project.fact(GpuPrograms).users(home.path), *project.imported(home.path))):
        module = project.module_at(path) if project.contains(path, b"Trainer") else None
        for call in module.calls if module is not None else ():
            given = passed_as(call, "args", 1) if _TRAINER.search(last_name(call.func)) else None
            if given is None or module is None:
                continue
            origins = resolver.points_to(module, given)
            if any(ref.node is arguments.node for ref in origins):
                yield NodeRef(module, call)


def _prepares(project: Project, trainer: NodeRef) -> tuple[NodeRef, str, tuple[NodeRef, ...]] | None:
    """The heavy work that the collator or the data set of a trainer does for each batch or sample, and the calls that
    move its results to the GPU; None if there is none, or it is done there."""
    paths, steps, moves = SamplePreprocessing(project), list[tuple[NodeRef, str]](), list[NodeRef]()
    for function, part in _makers(project, trainer):
        assert isinstance(function.node, FUNCTIONS)
        step = paths.heavy(function.module, function.node)
        if step is not None and step.work != TOKENISES:
            steps.append((NodeRef(function.module, step.call), step.work))
        moving = moving_calls(project, function)
        if part not in ("", function.node.name) or not all(_hands_on(function, call) for call in moving):
            return None
        moves += [NodeRef(function.module, call) for call in moving]
    return (*steps[0], tuple(moves)) if steps else None


def moves_batches(project: Project, arguments: NodeRef) -> bool:
    """Return whether the collator or the data set of a trainer that gets the arguments moves anything to a GPU, which
    workers could not do."""
    return any(
        part or moving_calls(project, function)
        for trainer in trainers_of(project, arguments)
        for function, part in _makers(project, trainer)
    )


def _makers(project: Project, trainer: NodeRef) -> Iterator[tuple[NodeRef, str]]:
    """The functions that make the batches and samples of a trainer, and what their class computes on a GPU with."""
    assert isinstance(trainer.node, ast.Call)
    resolver = project.fact(Resolver)
    for parameter, methods in _DATA.items():
        given = keyword_value(trainer.node, parameter)
        if given is None:
            continue
        for ref in resolver.points_to(trainer.module, given):
            if isinstance(ref.node, FUNCTIONS):
                yield ref, ""
        if parameter == "train_dataset":
            yield from ((function, "") for function in _lazy(project, trainer.module, given))
        for where, owner in _classes(project, trainer.module, given):
            for name in methods:
                if (found := resolver.method(where, owner, name)) is not None and isinstance(found.node, FUNCTIONS):
                    yield found, part_of(project, where, owner, name)


def _lazy(project: Project, module: ModuleIndex, given: ast.expr) -> Iterator[NodeRef]:
    """Functions that make the samples of a data set when they are drawn: ``data.with_transform(prepare)``, or
    ``data.set_transform(prepare)`` in the module of the trainer."""
    named = {ast.unparse(part) for part in walk(given) if isinstance(part, ast.Name | ast.Attribute | ast.Subscript)}
    calls = [
        NodeRef(module, call)
        for name in LAZY
        for call in module.calls_by_name.get(name, ())
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in named - {"self"}
    ]
    for ref in (*calls, *made_from(project, [NodeRef(module, given)])):
        if isinstance(ref.node, ast.Call) and last_name(ref.node.func) in LAZY and ref.node.args:
            prepares = project.fact(Resolver).points_to(ref.module, ref.node.args[0])
            yield from (function for function in prepares if isinstance(function.node, FUNCTIONS))


def _hands_on(function: NodeRef, call: ast.Call) -> bool:
    """Return whether a call moves something to a device that the function returns, perhaps under a name, and hands to
    no other function: on the host it would be as good."""
    syntax = function.module.syntax
    if last_name(call.func) not in ("to", "cuda"):
        return False
    for up in syntax.ancestors(call):
        match up:
            case ast.Call() if last_name(up.func) not in _CONTAINERS:
                return False
            case ast.Return():
                return True
            case ast.Assign(targets=[ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name))]):
                return not any(
                    isinstance(part, ast.Name) and part.id == name and _is_handed(syntax.parents.get(part), part)
                    for part in walk(function.node)
                    if getattr(part, "lineno", 0) > call.lineno
                )
            case ast.stmt():
                return False
    return False


def _is_handed(parent: ast.AST | None, name: ast.Name) -> bool:
    """``encode(pixels)``"""
    is_argument = isinstance(parent, ast.keyword) or (isinstance(parent, ast.Call) and name in parent.args)
    return is_argument and not (isinstance(parent, ast.Call) and last_name(parent.func) in _CONTAINERS)


def _classes(project: Project, module: ModuleIndex, given: ast.expr) -> Iterator[tuple[ModuleIndex, ast.ClassDef]]:
    """The classes of a collator or data set, also of ``loader.dataset`` and of what ``random_split(data, ...)`` and
    ``Subset(data, ...)`` take parts of."""
    resolver = project.fact(Resolver)
    yield from resolver.classes_of(module, given)
    for ref in resolver.points_to(module, given):
        for part in made_from(project, held_by(ref)):
            if isinstance(part.node, ast.expr):
                yield from resolver.classes_of(part.module, part.node)
    if isinstance(given, ast.Attribute) and given.attr == "dataset":
        for loader in project.fact(LoaderFlow).loaders_of(module, given.value):
            for source in project.fact(HostToDevice).sources(loader):
                assert isinstance(source.node, ast.expr)
                yield from resolver.classes_of(source.module, source.node)
