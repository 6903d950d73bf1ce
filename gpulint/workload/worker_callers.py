"""The calls that pass a number of workers to the function that makes a loader, without those that only want another
loader of it (``_, _, test_loader = make_loaders(num_workers=0)``)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from gpulint.documents.call_syntax import with_defaults
from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.query import query
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.callers import callers
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.training.undrawn_loaders import UndrawnLoaders
from gpulint.values.constants import Constants, ConstantSet
from gpulint.workspace.module_index import BindingKind, FunctionNode, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project

_CALLS = 3
"""Functions through which a number is handed on."""
_MOST = 50
"""Calls of one function; with more, it is unknown which pass the number."""
_Path: TypeAlias = tuple[int, ...]


class WorkerCaller(NamedTuple):
    """A call, and the expression that gives the number: its argument, or the default of the parameter."""

    site: NodeRef
    number: NodeRef
    draws: bool
    """Batches are drawn from the loader that this call gets, as far as is known."""


@query
def worker_callers(project: Project, loader: Loader) -> tuple[WorkerCaller, ...]:
    """Return the calls that say how many workers a loader gets; empty where its number is no parameter of the function
    that makes it, or a call cannot be read."""
    argument = loader_argument(project, loader, "num_workers")
    if len(argument.refs) != 1 or argument.unknown:
        return ()
    number = argument.refs[0]
    is_kept = isinstance(number.node, ast.Attribute)
    found = list(_of_objects(project, loader, number) if is_kept else _calls(project, loader.call, (), number, _CALLS))
    return tuple(one for one in found if one is not None) if None not in found else ()


def zero_callers(project: Project, loader: Loader) -> list[WorkerCaller]:
    """Return the calls that leave a loader without workers and are of use to change: batches are drawn from what they
    get. Where others draw from loaders with workers, a call has to train with its own."""
    drawing = [one for one in worker_callers(project, loader) if one.draws]
    zero = [one for one in drawing if _value(project, one).every(lambda number: number == 0)]
    if len(zero) == len(drawing):
        return zero
    homes = [one.site.module.path for one in drawing]
    return [one for one in zero if homes.count(one.site.module.path) == 1 and _trains(project, loader, one.site)]


def _value(project: Project, caller: WorkerCaller) -> ConstantSet:
    return project.fact(Constants).of(caller.number.module, caller.number.node)


def _trains(project: Project, loader: Loader, site: NodeRef) -> bool:
    """Return whether training steps take their batches in the module of a call, or in a function that it calls."""
    roles = project.fact(LoopContexts)
    return any(
        isinstance(read.where.node, ast.For)
        and roles.role(read.where.module, read.where.node) is Role.STEP
        and any(at.ref.module is site.module for at in callers(project, read.where, 1))
        for read in project.fact(BatchFlow).of_loader(loader.module, loader.node)
    )


def _calls(
    project: Project, made: NodeRef, path: _Path | None, number: NodeRef, calls: int
) -> Iterator[WorkerCaller | None]:
    """Yield the calls that pass a number which a function hands on to what it makes; None for one that is not known."""
    module, name = number.module, number.node
    function = module.function(name)
    if not isinstance(name, ast.Name) or function is None or function is not module.function(made.node):
        return
    bindings = module.scope(name).lookup(name.id)
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.PARAMETER or not calls:
        return
    given = _in_result(made, path, function) if path is not None else None
    member = _member(made) if function.name == "__init__" else ""
    default = next((value for arg, value in with_defaults(function.args) if arg.arg == name.id), None)
    sites = list(islice(project.fact(Resolver).call_sites(module, function), _MOST + 1))
    if len(sites) > _MOST:
        yield None
        return
    for site in sites:
        passed = argument_of(function, site.node, name.id) if isinstance(site.node, ast.Call) else None
        if not isinstance(site.node, ast.Call) or isinstance(passed, ast.Starred) or (passed or default) is None:
            yield None
            continue
        value = NodeRef(site.module, passed) if passed is not None else NodeRef(module, default)  # type: ignore[arg-type]
        further = list(_calls(project, site, given, value, calls - 1))
        draws = given is None or not project.fact(UndrawnLoaders).is_left(site.module, site.node, given)
        draws = draws and (not member or _may_use(project, site.module, made, member))
        yield from further or [WorkerCaller(site, value, draws)]


def _of_objects(project: Project, loader: Loader, number: NodeRef) -> Iterator[WorkerCaller | None]:
    """Yield the calls that make the object which keeps the number (``Data(num_workers=0)``); None for one that is not
    known, or a default."""
    member = _member(loader.call)
    for ref in project.fact(Resolver).points_to(number.module, number.node):
        up = ref.module.syntax.parents.get(ref.node)
        site = ref.module.syntax.parents.get(up) if isinstance(up, ast.keyword) else up
        if not isinstance(site, ast.Call) or site.func is ref.node or not member:
            yield None
        else:
            draws = _may_use(project, ref.module, loader.call, member)
            yield WorkerCaller(NodeRef(ref.module, site), ref, draws)


def _member(made: NodeRef) -> str:
    """Return the method of a class that gives what a call makes, or the attribute that keeps it; empty if unknown."""
    function, statement = made.module.function(made.node), made.module.syntax.parents.get(made.node)
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]):
            return name
    in_class = function is not None and isinstance(made.module.syntax.parents.get(function), ast.ClassDef)
    return function.name if function is not None and in_class and not function.name.startswith("__") else ""


def _may_use(project: Project, user: ModuleIndex, made: NodeRef, member: str) -> bool:
    """Return whether a module that makes an object, or one that it imports, may use a member of it. A library may call
    those of a class that derives from one of its own, and other members may hand it on."""
    owner = made.module.class_of(made.node)
    if owner is None or owner.bases or _names(made.module, member):
        return True
    modules = map(project.module_at, (user.path, *project.imported(user.path)))
    return any(one is None or _names(one, member) for one in modules)


def _names(module: ModuleIndex, member: str) -> bool:
    looked_up = member in module.strings and "getattr" in module.calls_by_name
    return looked_up or any(
        node.attr == member and isinstance(node.ctx, ast.Load) for node in module.syntax.of(ast.Attribute)
    )


def _in_result(made: NodeRef, path: _Path, function: FunctionNode) -> _Path | None:
    """Return where the result of a function has what it makes: () if it is the result itself; None if unknown."""
    name = _name_of(made, path)
    found = set[_Path]()
    for part in walk(function):
        if not isinstance(part, ast.Return) or part.value is None:
            continue
        parts = part.value.elts if isinstance(part.value, ast.Tuple) else [part.value]
        for index, value in enumerate(parts):
            at = (index,) if isinstance(part.value, ast.Tuple) else ()
            if isinstance(value, ast.Name) and name and value.id == name:
                found.add(at)
            elif value is made.node:
                found.add((*at, *path))
    return found.pop() if len(found) == 1 else None


def _name_of(made: NodeRef, path: _Path) -> str:
    """Return the variable that gets what a call makes, or a part of it; empty if there is none."""
    match made.module.syntax.parents.get(made.node):
        case ast.Assign(targets=[ast.Name(id=name)]) if not path:
            return name
        case ast.Assign(targets=[ast.Tuple(elts=parts)]) if len(path) == 1 and path[0] < len(parts):
            part = parts[path[0]]
            return part.id if isinstance(part, ast.Name) else ""
    return ""
