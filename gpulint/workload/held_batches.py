"""Loaders of which the program keeps the batches: ``itertools.cycle(loader)`` repeats those of the first pass, a list
collects them. A tensor that a worker has sent holds a file descriptor for as long as it is kept."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
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
_COLLECTS = frozenset({"list", "tuple", "sorted"})
_EMPTIES = frozenset({"clear", "pop", "popleft"})


def keeper_of(project: Project, loader: Loader) -> str:
    """Return what keeps the batches of a loader, as a text for a sentence; empty if nothing is seen to."""
    if (repeated := _repeated(project).get(loader.node)) is not None:
        return f"`{repeated}`"
    reads = project.fact(BatchFlow).of_loader(loader.module, loader.node)
    return "a list" if any(_collects(read.where) for read in reads) else ""


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
    """Return whether a loop or a comprehension keeps the batches that it draws as they are."""
    match read.node:
        case ast.ListComp(elt=ast.Name(id=kept), generators=[ast.comprehension(target=ast.Name(id=name))]):
            return kept == name
        case ast.Call(func=ast.Name(id=name)):
            return name in _COLLECTS
        case ast.For(target=target) as loop:
            batch = target.elts[-1] if isinstance(target, ast.Tuple) and _counts(loop) else target
            return isinstance(batch, ast.Name) and _appends(read.module, loop, batch.id)
    return False


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
