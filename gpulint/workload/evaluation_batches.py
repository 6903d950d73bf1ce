"""Why evaluation batches are as small as they are: what bounds them, what the metric needs, what nobody uses."""

from __future__ import annotations

import ast
from collections.abc import Set
from typing import TYPE_CHECKING, TypeGuard

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.prepared_loaders import Frameworks
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.query import query
from gpulint.training.bounded_loops import reads_few_batches
from gpulint.training.frozen_models import trains_only_head
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role, may_train
from gpulint.training.undrawn_loaders import UndrawnLoaders
from gpulint.values.arguments import Arguments
from gpulint.workload.batch_size_limits import BatchSizeLimits
from gpulint.workload.batch_sources import BatchSource, BatchSources
from gpulint.workload.padded_images import pads_images
from gpulint.workload.sample_lengths import have_own_lengths
from gpulint.workload.trainer_workers import ARGUMENTS
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

_TINY = frozenset({"TUDataset", "Planetoid", "KarateClub", "WebKB", "Actor", "PPI", "PPIDataset"})
"""Graph benchmarks whose splits are about one batch, or two large graphs."""
_SLIDES = frozenset({"sliding_window_inference", "SlidingWindowInferer"})
"""MONAI's evaluation of one volume after the other, in batches of its windows."""
_FITS = regex.compile(r"\.fit\w*\(|\.train\(|[tT]rainer\b|GradientTape|value_and_grad|\btrain\w*\(")
"""Training that a library or a function from elsewhere may do."""
_TRAINER = regex.compile(r"Trainer$")
_ASKED = frozenset(
    (
        "eval_strategy evaluation_strategy do_eval do_predict eval_on_start evaluate_during_training eval_steps"
        " load_best_model_at_end"
    ).split()
)
_EVALUATES = frozenset({"evaluate", "predict", "evaluation_loop", "prediction_loop", "hyperparameter_search"})
_ASKS = regex.compile(rb"\.(evaluate|predict|evaluation_loop|prediction_loop|hyperparameter_search)\(")
_FEEDS = ("val_dataloader", "test_dataloader")
_MADE_UP = regex.compile(
    r"(^|_)(fake|dummy|synthetic|mock)_?(eval_|val_|test_)?(data|batch|image|sample|token|iter|loader)|^(Fake|Toy|Dummy)[A-Z]"
)
"""Functions and classes that make samples up."""
_SCORES = regex.compile(r"psnr|peak_signal_noise_ratio|log10")
_PSNR = regex.compile(r"(^|_)psnr$|peak_signal_noise_ratio$")
"""Functions that compare two images; torchmetrics' classes keep the error of all."""


def has_reason(project: Project, module: ModuleIndex, source: BatchSource) -> bool:
    """Return whether a larger evaluation batch is of no use, or the size was chosen on purpose."""
    return (
        _is_one_on_purpose(module, source)
        or "PipelineModule" in module.calls_by_name  # whose engine evaluates in the micro-batches that it trains with
        or _bounded(project, module, source)
        or _is_made_up(source)
        or _is_reckoned(source)
        or _unused(project, module, source.node)
        or project.fact(UndrawnLoaders).only_first_batches(module, source.node)
        or project.fact(UndrawnLoaders).is_kept_for_nothing(module, source.node)
        or _feeds_empty_hook(project, module, source.node)
        or (bool(ARGUMENTS.search(last_name(source.node.func))) and never_evaluates(project, module))
        or _drawn_one_by_one(project, module, source.node)
        or project.fact(BatchSizeLimits).only_looked_at(module, source.node)
        or trains_only_head(project, module)
    )


def _is_one_on_purpose(module: ModuleIndex, source: BatchSource) -> bool:
    """Return whether a comment right above says that the batch of one has a reason."""
    size = source.batch.node
    if not isinstance(size, ast.Constant) or size.value != 1:
        return False
    above = module.syntax.source.line(module.syntax.span(source.node).line - 1).strip()
    return above.startswith("#") and "batch" in above


def _is_made_up(source: BatchSource) -> bool:
    """Return whether there is no data behind the batches (``fake_batches(...)``, ``DataLoader(FakeData(...))``)."""
    made = (source.node.func, *source.node.args[:1])
    return any(_MADE_UP.search(last_name(part)) for part in made)


def _is_reckoned(source: BatchSource) -> bool:
    """Return whether the size is computed from something else (``candidates + 1``, which a metric ranks at a time)."""
    size = source.batch.node
    return isinstance(size, ast.BinOp) and isinstance(size.op, ast.Add | ast.Sub) and "batch" not in source.text


def _drawn_one_by_one(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether every use of the loader's name is a ``next(loader)`` between training steps, or its preparation,
    and no pass over the split."""
    statement = next((up for up in module.syntax.ancestors(call) if isinstance(up, ast.Assign)), None)
    if statement is None or len(statement.targets) != 1 or not isinstance(statement.targets[0], ast.Name):
        return False
    name = statement.targets[0].id
    parents = [module.syntax.parents.get(node) for node in _reads_by_name(module).get(name, ())]
    calls = [up for up in parents if isinstance(up, ast.Call)]
    drawn = [up for up in calls if last_name(up.func) == "next"]
    if (
        not drawn
        or len(calls) < len(parents)
        or not {last_name(up.func) for up in calls} <= _undrawn(project) | {"next"}
    ):
        return False
    return all(
        loop is not None and project.fact(LoopContexts).role(module, loop) is Role.STEP
        for loop in (next(project.fact(LoopContexts).around(module, up), None) for up in drawn)
    )


@query
def _reads_by_name(module: ModuleIndex) -> dict[str, list[ast.Name]]:
    """The places where a module reads each name."""
    found: dict[str, list[ast.Name]] = {}
    for node in module.syntax.of(ast.Name):
        if isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, []).append(node)
    return found


def _bounded(project: Project, module: ModuleIndex, source: BatchSource) -> bool:
    """Return whether something else than the batch size bounds the work of one step."""
    neighbors = project.fact(Arguments).value(module, source.node, "num_neighbors", 1)
    return neighbors.any(lambda value: isinstance(value, tuple) and -1 in value) or few_graphs(module, source)


def few_graphs(module: ModuleIndex, source: BatchSource) -> bool:
    """Return whether the batches are made of a benchmark's few graphs."""
    for part in [*source.node.args[:1], *(k.value for k in source.node.keywords if k.arg == "dataset")]:
        data = part.value if isinstance(part, ast.Subscript) else part
        if isinstance(data, ast.Name) and any(
            _is_tiny(binding.value) for binding in module.scope(data).lookup(data.id) if binding.value is not None
        ):
            return True
    return False


def _is_tiny(data: ast.expr) -> bool:
    return any(isinstance(call, ast.Call) and last_name(call.func) in _TINY for call in walk(data))


def _unused(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the loader is assigned to a name that nothing reads: in its function, or in a program that reads
    the names of others that it makes."""
    name = _assigned_to(project, module, call)
    if not name or (module.class_of(call) is not None and module.function(call) is None):
        return False
    function = module.function(call)
    read: Set[str] = _reads_by_name(module).keys()
    if function is not None:
        read = {node.id for node in walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    if name in read:
        return False
    if function is not None:
        return True
    beside = {_assigned_to(project, module, source.node) for source in project.fact(BatchSources).in_module(module)}
    if not beside & read or name in module.strings:
        return False
    return not any(project.contains(user, word_of(name)) for user in project.fact(GpuPrograms).users(module.path))


def _feeds_empty_hook(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether ``val_dataloader`` feeds a ``validation_step`` that is there but does nothing, so that Lightning
    calls the hooks around it."""
    function = module.function(call)
    if function is None or function.name not in _FEEDS:
        return False
    program = project.fact(MultiGpuUse).of(module.path)
    modules = program.modules_where(lambda project, path: project.word_index.holds(path, b"validation_step"))
    steps = [hook for other in modules for hook in other.functions if hook.name == "validation_step"]
    return bool(steps) and all(_does_nothing(hook) for hook in steps)


def _does_nothing(function: FunctionNode) -> bool:
    return all(
        isinstance(part, ast.Pass) or isinstance(getattr(part, "value", None), ast.Constant) for part in function.body
    )


def _undrawn(project: Project) -> Set[str]:
    """Calls that take a loader without drawing from it."""
    return project.models.derived(Frameworks).prepares | {"cycle"}


def _assigned_to(project: Project, module: ModuleIndex, call: ast.Call) -> str:
    """The name that a call's value is kept under, perhaps as ``cycle(value)``; "" if it has none."""
    up = module.syntax.parents.get(call)
    while isinstance(up, ast.Call) and last_name(up.func) in _undrawn(project):
        up = module.syntax.parents.get(up)
    match up:
        case ast.Assign(targets=[ast.Name(id=name), *_]):
            return name
    return ""


def never_evaluates(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module makes trainers of Hugging Face that are told to train alone, and no program that uses it
    requests an evaluation.

    ``eval_strategy`` is "no" unless it is given: https://huggingface.co/docs/transformers/main_classes/trainer
    """
    made = [call for name, calls in module.calls_by_name.items() if ARGUMENTS.search(name) for call in calls]
    if not made or not all(map(_only_trains, made)) or not any(map(_TRAINER.search, module.calls_by_name)):
        return False
    if not _EVALUATES.isdisjoint(module.calls_by_name):
        return False
    others = [*project.imported(module.path), *project.fact(GpuPrograms).users(module.path)]
    return not any(project.finds(path, _ASKS) for path in others)


def _only_trains(arguments: ast.Call) -> bool:
    for keyword in arguments.keywords:
        if keyword.arg is None:
            return False
        if keyword.arg in _ASKED and not (
            isinstance(keyword.value, ast.Constant) and keyword.value.value in (None, False, "no")
        ):
            return False
    return not arguments.args[1:]


def one_is_enough(project: Project, module: ModuleIndex, source: BatchSource) -> bool:
    """Return whether a metric needs each image alone, each is cut into windows, has a length of its own or would be
    padded to the size of others, or only a few batches are drawn."""
    made_in, loader = source.call.module, source.node
    if not _SLIDES.isdisjoint(module.calls_by_name) or have_own_lengths(project, made_in, loader):
        return True
    if pads_images(project, made_in, loader):
        return True
    return _scores_images(project, module) or _glanced_at(project, source) or _is_paired(project, source)


def _is_paired(project: Project, source: BatchSource) -> bool:
    """Return whether a loop counts its batches to pick from a list of samples (``for i, x in enumerate(loader):
    names[i]``)."""
    for drawn in project.fact(BatchFlow).of_loader(source.call.module, source.node):
        match drawn.where.node:
            case ast.For(target=ast.Tuple(elts=[ast.Name(id=index), _]), iter=drawn_from):
                own = {part.id for part in walk(drawn.where.node) if _is_stored(part)}
                if _counts(drawn.where.module, drawn_from) and any(
                    _is_picked(part, index, own) for part in walk(drawn.where.node)
                ):
                    return True
    return False


def _counts(module: ModuleIndex, source: ast.expr) -> bool:
    """Return whether a loop goes through ``enumerate(loader)``, perhaps by a name for it."""
    bindings = module.scope(source).lookup(source.id) if isinstance(source, ast.Name) else ()
    made = [source, *(binding.value for binding in bindings if binding.value is not None)]
    return any(isinstance(part, ast.Call) and last_name(part.func) == "enumerate" for one in made for part in walk(one))


def _is_stored(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _is_picked(node: ast.AST, index: str, own: set[str]) -> bool:
    """``names[index]`` of what the loop does not make itself."""
    match node:
        case ast.Subscript(value=base, slice=ast.Name(id=name), ctx=ast.Load()) if name == index:
            return not any(isinstance(part, ast.Name) and part.id in own for part in walk(base))
    return False


def _glanced_at(project: Project, source: BatchSource) -> bool:
    """Return whether all loops that draw from the loader stop after a few batches."""
    draws = project.fact(BatchFlow).of_loader(source.call.module, source.node)
    return bool(draws) and all(reads_few_batches(project, batch_read.where) for batch_read in draws)


def _scores_images(project: Project, module: ModuleIndex) -> bool:
    """Return whether the program averages a logarithm of each image's error. That of a batch's mean error is another
    number."""
    program = project.fact(MultiGpuUse).of(module.path)
    for other in program.modules_where(lambda project, path: project.matches(path, _SCORES)):
        for name, calls in other.calls_by_name.items():
            if _PSNR.search(name):
                return True
            if name == "log10" and any(_is_named_psnr(other, call) for call in calls):
                return True
    return False


def _is_named_psnr(module: ModuleIndex, call: ast.Call) -> bool:
    statement = next((up for up in module.syntax.ancestors(call) if isinstance(up, ast.Assign)), None)
    return statement is not None and "psnr" in last_name(statement.targets[0]).lower()


def only_evaluates(project: Project, module: ModuleIndex) -> bool:
    """A program whose split named "train" is never trained on, nor by those that use its functions: features for a
    nearest-neighbour search, say."""
    if "__main__" not in module.syntax.source.text or _FITS.search(module.syntax.source.text):
        return False
    programs = (module.path, *project.fact(GpuPrograms).users(module.path))
    return not any(
        project.fact(LoopContexts).has_training_step(other)
        for path in programs
        for other in project.fact(MultiGpuUse).of(path).modules_where(may_train)
    )
