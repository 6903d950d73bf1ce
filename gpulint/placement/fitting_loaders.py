"""Loaders whose samples a loop can unpack: one that takes three values is not fed by samples of two."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import TORCH_LOADER, Loader, loader_argument
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project


def fitting(
    project: Project, loop: ast.For | ast.AsyncFor | ast.comprehension, loaders: Iterable[Loader]
) -> tuple[Loader, ...]:
    """Return the loaders that a loop may draw from, as far as it unpacks what they give: the others are of another
    module of that name, say."""
    taken, found = _taken(loop), tuple(dict.fromkeys(loaders))
    return tuple(one for one in found if _values(project, one) in (0, taken)) if taken else found


def _taken(loop: ast.For | ast.AsyncFor | ast.comprehension) -> int:
    """Return how many values a loop unpacks of a batch; 0 if it does not, or takes the rest as it is."""
    target, source = loop.target, loop.iter
    while isinstance(source, ast.Call) and source.args and source is not unwrap_iterable(source):
        if last_name(source.func) == "zip":
            return 0
        if last_name(source.func) == "enumerate":
            if not isinstance(target, ast.Tuple | ast.List) or len(target.elts) != 2:
                return 0
            target = target.elts[1]
        source = source.args[0]
    if isinstance(target, ast.Name) and not isinstance(loop, ast.comprehension):
        return _unpacked(loop, target.id)
    return _length(target)


def _unpacked(loop: ast.For | ast.AsyncFor, name: str) -> int:
    """Return how many values a loop unpacks of its variable first of all (``images, labels = batch``)."""
    match loop.body[0]:
        case ast.Assign(targets=[ast.Tuple() | ast.List() as target], value=ast.Name(id=value)) if value == name:
            return _length(target)
    return 0


def _length(target: ast.expr) -> int:
    if not isinstance(target, ast.Tuple | ast.List) or any(isinstance(part, ast.Starred) for part in target.elts):
        return 0
    return len(target.elts)


@query
def _values(project: Project, loader: Loader) -> int:
    """Return of how many values the batches of a loader are made that collates the usual way; 0 if unknown."""
    if loader.name != TORCH_LOADER or any(keyword.arg is None for keyword in loader.node.keywords):
        return 0
    if not loader_argument(project, loader, "collate_fn").is_absent:
        return 0
    resolver, counts = project.fact(Resolver), set[int]()
    for ref in loader_argument(project, loader, "dataset").refs:
        for origin in resolver.points_to(ref.module, ref.node):
            made = resolver.classes_of(origin.module, origin.node) if isinstance(origin.node, ast.Call) else []
            counts.update([_of_samples(project, where, owner) for where, owner in made] or [0])
    return counts.pop() if len(counts) == 1 else 0


@query
def _of_samples(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> int:
    """Return how many values a data set gives for a sample, always; 0 if unknown."""
    resolver = project.fact(Resolver)
    getter = resolver.method(module, owner, "__getitem__")
    if getter is None or not isinstance(getter.node, FUNCTIONS) or getter.node.decorator_list:
        return 0
    if resolver.method(module, owner, "__getitems__") is not None or any(
        isinstance(part, ast.Yield | ast.YieldFrom) for part in walk(getter.node)
    ):
        return 0
    lengths = {_length(value) for value in resolver.returns(getter.node)}
    return lengths.pop() if len(lengths) == 1 else 0
