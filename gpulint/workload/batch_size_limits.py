"""Why a batch may be small on purpose: accumulation, huge models, reinforcement learning, tests, the CPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.finding import Place
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query, stored
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.source import Span
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.training.loop_roles import Role
from gpulint.values.constants import Constants
from gpulint.values.positional_options import is_required_by_position
from gpulint.workload.batch_sources import BatchSources
from gpulint.workload.data_split import Split
from gpulint.workload.small_batches import is_accumulation, is_batch_size, names_large_model
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name, source_text

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project

T = TypeVar("T")

_MICRO = regex.compile(r"micro[-_]?batch", re.IGNORECASE)
_RL = regex.compile(r"^(gym|gymnasium|stable_baselines3|sb3_contrib|torchrl|tianshou|pettingzoo|minigrid|dm_control)$")
_RL_NAME = regex.compile(r"replay_?(buffer|memory)|rollout_?buffer|^actor_?critic$|^(rlhf|ppo|grpo)_", re.IGNORECASE)
_FAKE = regex.compile(r"mock|^(toy|dummy)_?data(set)?$", re.IGNORECASE)
_PROFILES = regex.compile(r"(^|[_-])(profile|profiler|profiling)([_-]|$)", re.IGNORECASE)


@stored("files that name a device")
def _names_device(project: Project, path: Path) -> bool:
    return project.fact(GpuPrograms).words.names_device(project.data(path))


class BatchSizeLimits:
    """What bounds the batches of the Python modules of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    @query
    def reason(self, module: ModuleIndex) -> str:
        """Return why a module's batches may be small on purpose; "" if nothing says so."""
        if self._project.is_test(module.path):
            return "a test"
        names = _identifiers(module)
        if any(map(_RL.match, module.packages)) or any(_RL_NAME.search(name) for name in names):
            return "reinforcement learning"
        if any(_MICRO.search(name) for name in names):
            return "micro-batches"
        texts = [*module.strings, *self._default_models(module)]
        if any(names_large_model(text) for text in texts if " " not in text):
            return "a model that fills the GPU"
        if any(_FAKE.search(name) for name in names):
            return "made-up data"
        if self._project.fact(GpuPrograms).is_elsewhere(module) or self.is_for_cpu(module):
            return "a program of the CPU, or of TPUs"
        if _PROFILES.search(module.path.stem):
            return "a few steps to profile"
        return "accumulation" if self._accumulates(module, names) else ""

    def computes(self, module: ModuleIndex) -> bool:
        """Return whether a module trains or evaluates, as opposed to exporting or converting a model."""
        return bool(
            self._project.fact(LoopContexts).has_training_step(module)
            or self._project.fact(BatchSources).in_module(module)
            or self._project.fact(LoaderFlow).in_module(module)
            or module.calls_by_name.keys() & {"fit", "fit_generator", "train", "Trainer"}
            or self._project.fact(LoopContexts).has_passes(module)
        )

    def accumulates(self, program: str) -> bool:
        """Return whether all programs of the tree with a file name accumulate gradients."""
        modules = [self._project.module_at(path) for path in self._project.files if path.name == program]
        return any(modules) and all(module is None or self.reason(module) == "accumulation" for module in modules)

    def trained_with(self, option: NodeRef) -> bool:
        """Return whether a module that imports the option's, or that its module imports, trains with batches of its
        default."""
        path = option.module.path
        for other in (*self._project.fact(GpuPrograms).users(path), *self._project.imported(path)):
            module = self._project.module_at(other)
            if module is None or self.reason(module):
                continue
            for source in self._project.fact(BatchSources).in_module(module):
                if source.split is not Split.TRAIN:
                    continue
                known = self._project.fact(Constants).of(source.batch.module, source.batch.node)
                place = self._project.fact(Constants).place(option)
                if any(value.place.path == path and _within(value.place.span, place.span) for value in known.values):
                    return True
        return False

    def _default_models(self, module: ModuleIndex) -> Iterator[str]:
        """Models that a module loads, or has options for, whose names are constants of other modules."""
        for call in [*module.calls_by_name.get("add_argument", []), *module.calls_by_name.get("option", [])]:
            default = keyword_value(call, "default")
            if isinstance(default, ast.Name | ast.Attribute) and "model" in ast.unparse(call).lower():
                known = self._project.fact(Constants).of(module, default)
                yield from (value for value in known.constants if isinstance(value, str))
        for call in module.calls_by_name.get("from_pretrained", []):
            if call.args and not isinstance(call.args[0], ast.Constant):
                known = self._project.fact(Constants).of(module, call.args[0])
                yield from (value for value in known.constants if isinstance(value, str))

    def is_for_cpu(self, module: ModuleIndex) -> bool:
        """Return whether a program with its own training loop in PyTorch leaves everything where PyTorch makes it."""
        if "torch" not in module.packages or not module.loops:
            return False
        programs = self._project.fact(GpuPrograms)
        return not (
            programs.words.names_device(module.syntax.source.text.encode("utf-8", "replace"))
            or any(_names_device(self._project, path) for path in self._project.imported(module.path))
            or programs.runs_on_gpu(module)
        ) and any(self._project.fact(LoopContexts).role(module, loop) is Role.STEP for loop in module.loops)

    def unless_for_cpu(self, module: ModuleIndex, found: Iterator[T]) -> Iterator[T]:
        """Yield what is found in a module, unless it is for the CPU, which is only asked once something is found."""
        first = next(found, None)
        if first is not None and not self.is_for_cpu(module):
            yield first
            yield from found

    def is_tried_out(self, module: ModuleIndex, place: Place) -> bool:
        """Return whether a size is written where a module that others import tries itself (``if __name__ == ...``)."""
        span = place.span
        return (
            span.cell is None
            and not self._project.fact(LoopContexts).has_training_step(module)
            and any(
                isinstance(block, ast.If)
                and block.lineno <= span.line <= (block.end_lineno or block.lineno)
                and self._project.fact(GpuPrograms).tries_itself(module, block.body[0])
                for block in module.syntax.tree.body
            )
        )

    def only_looked_at(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether a module that computes nothing only draws from the loader that ``call`` makes, to see what it
        yields.

        So do all callers of a function that returns it, if any.
        """
        assigned = module.syntax.parents.get(call)
        function = module.function(call)
        if isinstance(assigned, ast.Return) and function is not None and not module.class_of(function):
            return not self._project.fact(GpuPrograms).module_computes(module) and all(
                isinstance(site.node, ast.Call) and self.only_looked_at(site.module, site.node)
                for site in self._project.fact(Resolver).call_sites(module, function)
            )
        if not isinstance(assigned, ast.Assign) or len(assigned.targets) != 1:
            return False
        target = assigned.targets[0]
        if not isinstance(target, ast.Name) or self._project.fact(GpuPrograms).module_computes(module):
            return False
        if _has_working_loop(self._project, module):
            return False
        if module.classes and any("__main__" in source_text(module, test) for test, _ in conditions(module, call)):
            return True  # A module for others tries itself out.
        # A pass in a loop (of epochs) is work.
        drawn, uses = _drawn(self._project, module), module.uses.get(target.id, [])
        return bool(uses) and all(use in drawn or _is_glance(module, use) for use in uses)

    def _accumulates(self, module: ModuleIndex, names: Iterable[str]) -> bool:
        """Return whether accumulation is there and not set to one step."""
        found = [name for name in names if is_accumulation(name)]
        # An evaluation accumulates its metrics.
        if not found or not (
            self._project.fact(LoopContexts).has_training_step(module)
            or any("grad" in name or "step" in name for name in found)
        ):
            return False
        constants = [size for value in _settings(module) for size in self._sizes(module, value)]
        return not constants or max(constants) > 1

    def _sizes(self, module: ModuleIndex, node: ast.expr) -> list[int]:
        values = self._project.fact(Constants).of(module, node).constants
        return [value for value in values if isinstance(value, int) and not isinstance(value, bool)]


@query
def _has_working_loop(project: Project, module: ModuleIndex) -> bool:
    return any(project.fact(LoopContexts).role(module, loop) is not Role.OTHER for loop in module.loops)


@query
def _drawn(project: Project, module: ModuleIndex) -> frozenset[ast.expr]:
    """Return what the outermost loops of a module run over."""
    loops = (
        loop
        for loop in module.loops
        if isinstance(loop, ast.For) and not any(project.fact(LoopContexts).around(module, loop))
    )
    return frozenset(unwrap_iterable(loop.iter) for loop in loops)


def _within(inner: Span, outer: Span) -> bool:
    return (outer.line, outer.column) <= (inner.line, inner.column) and (inner.end_line, inner.end_column) <= (
        outer.end_line,
        outer.end_column,
    )


def _is_glance(module: ModuleIndex, use: ast.Name) -> bool:
    """``len(loader)``, ``iter(loader)``."""
    up = module.syntax.parents.get(use)
    return isinstance(up, ast.Call) and use in up.args and last_name(up.func) in ("len", "iter", "next")


def _settings(module: ModuleIndex) -> Iterable[ast.expr]:
    """Expressions that set something named after accumulation: options, keywords, fields, variables, parameters."""
    for node in module.syntax.nodes:
        match node:
            case ast.Call(func=func, keywords=keywords) if last_name(func) in ("add_argument", "option"):
                words = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
                if any(is_accumulation(word) for word in words):
                    yield from (keyword.value for keyword in keywords if keyword.arg == "default")
            case ast.keyword(arg=str(name), value=value) if is_accumulation(name):
                yield value
            case ast.Assign(targets=[target], value=value) if is_accumulation(last_name(target)):
                yield value
            case ast.AnnAssign(target=target, value=ast.expr() as value) if is_accumulation(last_name(target)):
                yield value
            case ast.Attribute(attr=name, ctx=ast.Load()) if is_accumulation(name):
                yield node


def _identifiers(module: ModuleIndex) -> set[str]:
    syntax = module.syntax
    found = {text for text in module.strings if text.startswith("--")}
    found.update(node.id for node in syntax.of(ast.Name))
    found.update(node.attr for node in syntax.of(ast.Attribute))
    found.update(node.arg for node in syntax.of(ast.keyword) if node.arg)
    return found


def declared_sizes(project: Project, module: ModuleIndex) -> Iterable[tuple[NodeRef, str, int]]:
    """(declaration, name, default) of a module's options for the batch size, unless a launcher sets them."""
    for call in [*module.calls_by_name.get("add_argument", []), *module.calls_by_name.get("option", [])]:
        flags = tuple(arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))
        name = next((flag for flag in flags if is_batch_size(flag)), None)
        default = keyword_value(call, "default")
        if name is None or default is None or is_required_by_position(call):
            continue
        if any(launched.option(flags) for launched in project.fact(JobIndex).launches_of(module.path)):
            continue
        known = project.fact(Constants).of(module, default)
        sizes = [value for value in known.constants if isinstance(value, int) and not isinstance(value, bool)]
        if known.complete and len(sizes) == 1:
            yield NodeRef(module, call), name, sizes[0]
