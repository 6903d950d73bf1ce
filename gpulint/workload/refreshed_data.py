"""Data sets that the program changes between passes: persistent workers would go on with the copies that they got at
the start."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.host_to_device import HostToDevice
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workload.dataset_work import parts_of
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_REFRESHES = ("set_epoch", "resample", "refresh", "update", "reshuffle", "on_epoch_end")
"""Methods that change a data set, as their names say."""
_BUILT_IN = frozenset("append clear extend insert pop remove reverse shuffle sort update".split())


def is_refreshed(project: Project, loader: Loader, modules: Iterable[ModuleIndex]) -> bool:
    """Return whether one of the modules changes the data set of a loader within a loop: by a method whose result is not
    used (``loader.dataset.sample_negatives()``), or by an assignment (``train_data.epoch = epoch``)."""
    made = frozenset(_made(project, loader))
    return any(_calls_refresh(module) or _changes(project, module, made) for module in dict.fromkeys(modules))


def changes_within_pass(project: Project, loader: Loader) -> bool:
    """Return whether a loop over the batches of a loader assigns to an attribute of the data set (``data.size = 128``),
    which workers would not see before the next pass."""
    made = frozenset(_made(project, loader))
    reads = {read.where for read in project.fact(BatchFlow).of_loader(loader.module, loader.node)}
    return any(
        at.node in at.module.syntax.ancestors(statement)
        for at in reads
        for statement, bases in _assignments(at.module)
        if any(_is_data_set(project, at.module, base, made) for base in bases)
    )


def _made(project: Project, loader: Loader) -> Iterator[ast.AST]:
    """Yield what makes the data set of a loader, and the data sets that it is a part of."""
    resolver = project.fact(Resolver)
    for source in (*project.fact(HostToDevice).sources(loader), *parts_of(project, loader)):
        yield from (ref.node for ref in resolver.points_to(source.module, source.node))


@query
def _calls_refresh(module: ModuleIndex) -> bool:
    return any(
        isinstance(call.func, ast.Attribute) and "dataset" in last_name(call.func.value).lower()
        for method in _REFRESHES
        for call in module.calls_by_name.get(method, [])
    ) or any(
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Attribute)
        and call.func.value.attr == "dataset"
        and isinstance(module.syntax.parents.get(call), ast.Expr)
        for call in module.calls
    )


@query
def _changes(project: Project, module: ModuleIndex, made: frozenset[ast.AST]) -> bool:
    return any(
        _is_data_set(project, module, base, made) and _is_repeated(project, module, changed)
        for changed, bases in (*_assignments(module), *_statements(project, module))
        for base in bases
    )


def _assignments(module: ModuleIndex) -> Iterator[tuple[ast.AST, list[ast.expr]]]:
    """Assignments to a part of something, and what that is a part of, from the innermost object outwards."""
    stores = [(one, target) for one in module.syntax.of(ast.Assign) for target in one.targets]
    for statement, target in (*stores, *((one, one.target) for one in module.syntax.of(ast.AugAssign))):
        if isinstance(target, ast.Attribute | ast.Subscript):
            yield statement, _around(target.value)


def _statements(project: Project, module: ModuleIndex) -> Iterator[tuple[ast.AST, list[ast.expr]]]:
    """Calls of methods whose results are not used, and that set something on their object."""
    for call in module.calls:
        if not isinstance(call.func, ast.Attribute) or not isinstance(module.syntax.parents.get(call), ast.Expr):
            continue
        called = project.fact(Resolver).callees(module, call)
        if any(isinstance(method.node, FUNCTIONS) and _sets(method.node) for method in called):
            yield call, [call.func.value]


def _sets(method: ast.AST) -> bool:
    for part in walk(method):
        match part:
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store()):
                return True
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self")), ctx=ast.Store()):
                return True
            case ast.Call(args=[ast.Attribute(value=ast.Name(id="self"))], func=func) if last_name(func) in _BUILT_IN:
                return True
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")), attr=attr)):
                if attr in _BUILT_IN:
                    return True
    return False


def _around(node: ast.expr) -> list[ast.expr]:
    """``data.inner.order`` and what it is a part of: ``data.inner``, ``data``"""
    found = [node]
    while isinstance(found[-1], ast.Attribute | ast.Subscript):
        found.append(found[-1].value)
    return found


def _is_data_set(project: Project, module: ModuleIndex, node: ast.expr, made: frozenset[ast.AST]) -> bool:
    match node:
        case ast.Attribute(attr="dataset"):
            return True
        case ast.Name(id="self" | "cls"):
            return False
        case ast.Name(id=name):
            if any(getattr(one.value, "attr", "") == "dataset" for one in module.scope(node).lookup(name)):
                return True
        case ast.Attribute():
            pass
        case _:
            return False
    return any(ref.node in made for ref in project.fact(Resolver).points_to(module, node))


def _is_repeated(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a loop of epochs, or a hook that a framework calls for each, does this."""
    loops = project.fact(LoopContexts)
    return any(context.role is Role.EPOCH for context in loops.enclosing_loops(module, node))
