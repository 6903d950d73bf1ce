"""Loaders of which the program keeps the batches: ``itertools.cycle(loader)`` repeats those of the first pass, a list
collects them. A tensor that a worker has sent holds a file descriptor for as long as it is kept."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_REPEATS = {"cycle": "itertools.cycle", "tee": "itertools.tee", "ncycles": "more_itertools.ncycles"}
"""Functions that keep what they have drawn."""
_COLLECTS = ("list", "tuple", "sorted", "extend")
"""Functions and methods that keep all items of what they are given."""
_CUTS = frozenset({"islice", "next", "take", "map"})
"""Functions that give out a few batches, or something else."""
_EMPTIES = frozenset({"clear", "pop", "popleft"})


def keeper_of(project: Project, loader: Loader) -> str:
    """Return what keeps the batches of a loader, as a text for a sentence; empty if nothing is seen to."""
    if (repeated := _repeated(project).get(loader.node)) is not None:
        return f"`{repeated}`"
    reads = project.fact(BatchFlow).of_loader(loader.module, loader.node)
    if any(_collects(read.where) for read in reads):
        return "a list"
    users = map(project.module_at, sorted(project.fact(GpuPrograms).users(loader.module.path)))
    modules = dict.fromkeys((loader.module, *(read.where.module for read in reads), *users))
    return "a list" if any(loader.node in _listed(project, one) for one in modules if one is not None) else ""


@query
def _listed(project: Project, module: ModuleIndex) -> frozenset[ast.Call]:
    """Return the loaders all of whose batches a module puts into a list at once: ``list(loader)``, ``rest.extend(
    loader)``, ``[batch for batch in loader]``."""
    flow = project.fact(LoaderFlow)
    calls = (call for name in _COLLECTS for call in module.calls_by_name.get(name, ()))
    sources = [call.args[0] for call in calls if call.args]
    for made in module.syntax.of(ast.ListComp):
        match made.generators:
            case [ast.comprehension(target=target, iter=source, ifs=[])]:
                names = {part.id for part in walk(target) if isinstance(part, ast.Name)}
                sources += [source] * _is_of(made.elt, names)
    whole = [source for source in sources if not _is_cut(source)]
    return frozenset(loader.node for source in whole for loader in flow.loaders_of(module, source))


def _is_cut(source: ast.expr) -> bool:
    """Return whether an expression gives out a few batches of a loader, or what is made of them."""
    return any(isinstance(part, ast.Call) and last_name(part.func) in _CUTS for part in walk(source))


@query
def _repeated(project: Project) -> dict[ast.Call, str]:
    """The loaders that are handed to such functions."""
    found, flow, resolver = dict[ast.Call, str](), project.fact(LoaderFlow), project.fact(Resolver)
    for path in sorted({path for name in _REPEATS for path in project.python_files_with(name.encode())}):
        module = project.module_at(path)
        if module is None:
            continue
        for last, name in _REPEATS.items():
            for call in module.calls_by_name.get(last, ()):
                if call.args and name in resolver.call_names(module, call):
                    found |= {loader.node: name for loader in flow.loaders_of(module, call.args[0])}
    return found


def _collects(read: NodeRef) -> bool:
    """Return whether a loop keeps the batches that it draws as they are."""
    match read.node:
        case ast.For(target=target) as loop:
            batch = target.elts[-1] if isinstance(target, ast.Tuple) and _counts(loop) else target
            return isinstance(batch, ast.Name) and _appends(read.module, loop, batch.id)
    return False


def _is_of(element: ast.expr, names: set[str]) -> bool:
    """Return whether a value is one of some variables, or holds one as it is."""
    if isinstance(element, ast.Tuple | ast.List):
        return any(_is_of(part, names) for part in element.elts)
    return isinstance(element, ast.Name) and element.id in names


def _counts(loop: ast.For) -> bool:
    """``for step, batch in enumerate(loader):``"""
    return unwrap_iterable(loop.iter) is not loop.iter and "enumerate" in ast.unparse(loop.iter)


@query
def _appends(module: ModuleIndex, loop: ast.For, name: str) -> bool:
    """Return whether each round of a loop appends the batch to a list that no round empties."""
    parts = [part for statement in loop.body for part in walk(statement)]
    if any(isinstance(part, ast.Name) and part.id == name and not isinstance(part.ctx, ast.Load) for part in parts):
        return False  # what is appended may be on the GPU
    emptied = {
        ast.unparse(part.func.value)
        for part in parts
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in _EMPTIES
    } | {ast.unparse(part) for part in parts if isinstance(getattr(part, "ctx", None), ast.Store | ast.Del)}
    return any(
        isinstance(one, ast.Expr)
        and isinstance(one.value, ast.Call)
        and isinstance(one.value.func, ast.Attribute)
        and last_name(one.value.func) == "append"
        and [ast.unparse(given) for given in one.value.args] == [name]
        and ast.unparse(one.value.func.value) not in emptied
        for one in loop.body
    )
