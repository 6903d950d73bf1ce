"""What samples are made of besides their data set, and a program changes between passes: transforms, objects that put
batches together, settings and arrays that the data set is given, variables of its module."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.host_to_device import HostToDevice
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.workload.gpu_samples import reached
from gpulint.workload.refreshed_data import BUILT_IN, MAKE_SAMPLES, rounds_of, set_by
from gpulint.workload.sent_parts import held
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_RUN = (*MAKE_SAMPLES, "__call__", "forward", "transform")
"""Methods that run when a sample or a batch is made."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """What makes the objects that samples are made of, and the names that the code which makes them reads."""

    made: frozenset[ast.AST]
    read: frozenset[str]
    variables: frozenset[tuple[ModuleIndex, str]]
    """Variables of modules that this code reads."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A statement that changes something of an object, or of what that is a part of."""

    statement: ast.AST
    objects: tuple[ast.expr, ...]
    names: frozenset[str]
    """Attributes and keys that change; none where an element does."""


def changes_of_parts(project: Project, loader: Loader, modules: Iterable[ModuleIndex]) -> Iterator[NodeRef]:
    """Yield where one of the modules changes, in a loop of epochs or over batches, what the samples of a loader are
    made of (``jitter.strength = 0.1``), which workers do not see before they start again."""
    parts, own = _parts(project, loader), rounds_of(project, loader.module, loader.node)
    points_to = project.fact(Resolver).points_to
    for module in dict.fromkeys(modules):
        for change in _changes(project, module):
            if change.names and change.names.isdisjoint(parts.read):
                continue
            if rounds_of(project, module, change.statement) <= own:
                continue  # the loader is made anew after it
            if any(ref.node in parts.made for part in change.objects for ref in points_to(module, part)):
                yield NodeRef(module, change.statement)
        for name, statement in _sets_globals(module):
            if (module, name) in parts.variables and not rounds_of(project, module, statement) <= own:
                yield NodeRef(module, statement)


def parts_change_within_pass(project: Project, loader: Loader) -> bool:
    """Return whether a loop over the batches of a loader changes what its samples are made of (``targets[index] =
    ...``)."""
    reads = dict.fromkeys(read.where for read in project.fact(BatchFlow).of_loader(loader.module, loader.node))
    modules = dict.fromkeys(read.module for read in reads)
    return any(
        at.node in at.module.syntax.ancestors(change.node)
        for change in changes_of_parts(project, loader, modules)
        for at in reads
        if at.module is change.module
    )


@query
def _parts(project: Project, loader: Loader) -> _Parts:
    resolver, origins = project.fact(Resolver), _origins(project, loader)
    used = [(maker.module, part) for maker in makers_of(project, loader) for part in walk(maker.node)]
    objects = [
        (module, part.value)
        for module, part in used
        if isinstance(part, ast.Attribute | ast.Subscript) and _is_of_module(part.value)
    ]
    made = {ref.node for module, value in objects for ref in resolver.points_to(module, value)}
    return _Parts(
        frozenset(made | {origin.node for origin in origins if isinstance(origin.node, ast.expr)}),
        frozenset(name for _, part in used if (name := _name_read(part))),
        frozenset(
            (module, part.id) for module, part in used if isinstance(part, ast.Name) and _is_global(module, part)
        ),
    )


def _is_global(module: ModuleIndex, name: ast.Name) -> bool:
    """Return whether a name in a function is the module's, and no variable of the function."""
    return module.scope(name).lookup(name.id) is module.top.bindings.get(name.id)


def _origins(project: Project, loader: Loader) -> list[NodeRef]:
    """Return what makes the objects that samples are made of."""
    given = [ref for ref in project.fact(HostToDevice).sources(loader) if isinstance(ref.node, ast.expr)]
    if (collate := keyword_value(loader.node, "collate_fn")) is not None:
        given.append(NodeRef(loader.module, collate))
    return [one for ref in given if isinstance(ref.node, ast.expr) for one in held(project, ref.module, ref.node)]


def makers_of(project: Project, loader: Loader) -> list[NodeRef]:
    """Return the functions with which the samples of a loader are made."""
    return list(dict.fromkeys(maker for one in _origins(project, loader) for maker in _makers(project, one)))


def _makers(project: Project, origin: NodeRef) -> Iterator[NodeRef]:
    """The functions that make samples with an object: itself, or methods of its class."""
    if isinstance(origin.node, FUNCTIONS):
        yield origin
    if not isinstance(origin.node, ast.expr):
        return
    resolver = project.fact(Resolver)
    for where, owner in resolver.classes_of(origin.module, origin.node):
        for module, base in resolver.mro(where, owner):
            methods = {part.name: part for part in base.body if isinstance(part, ast.FunctionDef)}
            for name in _RUN:
                if name in methods:
                    yield from (NodeRef(module, one) for one in reached(methods, methods[name]))


def _is_of_module(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id != "self"


def _name_read(part: ast.AST) -> str:
    match part:
        case ast.Attribute(attr=name, ctx=ast.Load()) | ast.Subscript(slice=ast.Constant(value=str() as name)):
            return name
    return ""


def _stores(module: ModuleIndex) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """Yield what assignments set, also those that add to it."""
    yield from ((one, target) for one in module.syntax.of(ast.Assign) for target in one.targets)
    yield from ((one, one.target) for one in module.syntax.of(ast.AugAssign))


@query
def _changes(project: Project, module: ModuleIndex) -> tuple[_Change, ...]:
    found = [
        _Change(statement, _objects(target.value), _names_of(target))
        for statement, target in _stores(module)
        if isinstance(target, ast.Attribute | ast.Subscript)
    ]
    for call in module.calls:
        if not isinstance(call.func, ast.Attribute) or not isinstance(module.syntax.parents.get(call), ast.Expr):
            continue
        called = [one for one in project.fact(Resolver).callees(module, call) if isinstance(one.node, FUNCTIONS)]
        if names := frozenset(name for method in called for name in set_by(method.node)):
            found.append(_Change(call, _objects(call.func.value), names))
        elif last_name(call.func) in BUILT_IN and not called:
            found.append(_Change(call, (call.func.value,), frozenset()))
    return tuple(found)


def _objects(changed: ast.expr) -> tuple[ast.expr, ...]:
    """``cfg.data`` and what it is a part of: ``cfg``"""
    found = [changed]
    while isinstance(found[-1], ast.Attribute | ast.Subscript):
        found.append(found[-1].value)
    return tuple(one for one in found if not (isinstance(one, ast.Name) and one.id in ("self", "cls")))


def _names_of(target: ast.Attribute | ast.Subscript) -> frozenset[str]:
    match target:
        case ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str() as name)):
            return frozenset({name})
    return frozenset()


@query
def _sets_globals(module: ModuleIndex) -> tuple[tuple[str, ast.AST], ...]:
    """The variables of a module that its functions set (``global SIZE``), or its own top level in a loop, and where."""
    shared = {(module.function(one), name) for one in module.syntax.of(ast.Global) for name in one.names}
    return tuple(
        (target.id, statement)
        for statement, target in _stores(module)
        if isinstance(target, ast.Name)
        and ((function := module.function(statement)) is None or (function, target.id) in shared)
    )
