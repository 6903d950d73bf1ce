"""Loops that unpack a batch to another number of values than their data set's samples have, and samples with a part
that cannot be collated: both raise an error."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import cyclic, query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.training.loader_flow import LoaderFlow
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_KNOWN = frozenset({"dataset", "batch_size", "shuffle", "num_workers", "pin_memory", "drop_last", "persistent_workers"})
"""What leaves the batches of a loader as the default function collates them: one part for each of a sample."""
_BARS = frozenset({"tqdm", "track", "trange"})


@cyclic(False)
def unpacks_other_batches(project: Project, module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether a loop over a loader unpacks each batch to another number of values than all samples have (``for
    image, label in loader`` where each ``return`` of ``__getitem__`` has three)."""
    if not isinstance(loop, ast.For) or any(isinstance(up, ast.Try) for up in module.syntax.ancestors(loop)):
        return False
    source, target = loop.iter, loop.target
    while isinstance(source, ast.Call) and source.args:
        name = last_name(source.func)
        if name == "enumerate" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            target = target.elts[1]
        elif name not in _BARS:
            break
        source = source.args[0]
    wanted = _length(target) if isinstance(target, ast.Tuple | ast.List) else _unpacked(loop, target)
    loaders = project.fact(LoaderFlow).loaders_of(module, source) if wanted else ()
    return bool(loaders) and all(_differs(project, loader, wanted) for loader in loaders)


def _length(target: ast.Tuple | ast.List) -> int:
    return 0 if any(isinstance(one, ast.Starred) for one in target.elts) else len(target.elts)


def _unpacked(loop: ast.For, target: ast.expr) -> int:
    return unpacked_to(loop.body, target.id) if isinstance(target, ast.Name) else 0


def unpacked_to(body: list[ast.stmt], batch: str) -> int:
    """Return to how many values the first statement that uses a batch unpacks it; 0 if it does something else."""
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Tuple() | ast.List() as parts], value=ast.Name(id=name)) if name == batch:
                return _length(parts)
        if any(isinstance(part, ast.Name) and part.id == batch for part in walk(statement)):
            return 0
        if isinstance(statement, ast.If | ast.Try | ast.With | ast.Continue | ast.Break | ast.Return):
            return 0
    return 0


@query
def collated_none(project: Project, loader: Loader) -> tuple[ModuleIndex, ast.expr] | None:
    """Return a ``None`` in each sample of a loader, for which the default function that puts batches together raises an
    error (``return image, None`` of ``__getitem__``)."""
    argument = loader_argument(project, loader, "dataset")
    sizes = [keyword.value for keyword in loader.node.keywords if keyword.arg == "batch_size"]
    if not collates_parts(loader) or argument.unknown or any(map(_is_none, sizes)):
        return None
    found = [_nones(project, ref) for ref in argument.refs]
    return found[0][0] if found and all(found) else None


def _nones(project: Project, ref: NodeRef) -> list[tuple[ModuleIndex, ast.expr]]:
    """Return a ``None`` of each sample that a data set of the tree may return; nothing if one has none."""
    getters = _getters(project, ref)
    values = [(one.module, value) for one in getters or () for value in _returns(one.module, one.node)]
    parts = [
        (where, next(filter(_is_none, value.elts if isinstance(value, ast.Tuple | ast.List) else [value]), None))
        for where, value in values
        if value is not None
    ]
    found = [(where, part) for where, part in parts if part is not None]
    return found if len(found) == len(values) else []


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def collates_parts(loader: Loader) -> bool:
    """Return whether a loader puts its batches together as the default function does."""
    call = loader.node
    if loader.name != "torch.utils.data.DataLoader" or not isinstance(call, ast.Call) or len(call.args) > 3:
        return False
    return all(keyword.arg in _KNOWN for keyword in call.keywords)


def _differs(project: Project, loader: Loader, wanted: int) -> bool:
    if not collates_parts(loader):
        return False
    argument = loader_argument(project, loader, "dataset")
    lengths = [lengths_of(project, ref) for ref in argument.refs]
    return not argument.unknown and bool(lengths) and all(found and wanted not in found for found in lengths)


def lengths_of(project: Project, ref: NodeRef) -> set[int]:
    """Return the lengths of the tuples that a data set of the tree returns; none if it may return something else."""
    found = set[int]()
    for getter in _getters(project, ref) or ():
        returned = [*_returns(getter.module, getter.node)]
        if not returned or not all(isinstance(value, ast.Tuple) and _length(value) for value in returned):
            return set()
        found |= {_length(value) for value in returned if isinstance(value, ast.Tuple)}
    return found


def _getters(project: Project, ref: NodeRef) -> list[NodeRef] | None:
    """Return the methods that make the samples of a data set of the tree; None if something else may make some."""
    resolver, found = project.fact(Resolver), list[NodeRef]()
    made = list(resolver.points_to(ref.module, ref.node)) if isinstance(ref.node, ast.expr) else []
    for one in made:
        owners = resolver.classes_of(one.module, one.node) if isinstance(one.node, ast.Call) else []
        if len(owners) != 1:
            return None
        getter = resolver.method(*owners[0], "__getitem__")
        if getter is None or not isinstance(getter.node, ast.FunctionDef) or getter.node.decorator_list:
            return None
        if resolver.method(*owners[0], "__getitems__") is not None:
            return None
        found.append(NodeRef(getter.module, getter.node))
    return found


def _returns(module: ModuleIndex, function: ast.AST) -> Iterator[ast.expr | None]:
    return (part.value for part in walk(function) if isinstance(part, ast.Return) and module.function(part) is function)
