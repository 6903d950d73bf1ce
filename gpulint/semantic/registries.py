"""Calls that reach a class or function through a table: ``MODELS[name](...)``, or of a variable that holds an entry.

Call sites are searched by name, which such calls do not have. So the tables are searched that hold the name, then the
calls of what is taken out of one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.semantic.points_to import Resolver

MAX_STEPS = 2
"""How many getters (``def get(name): return MODELS[name]``) are followed."""


def calls_through_tables(
    project: Project, resolver: Resolver, module: ModuleIndex, function: FunctionNode, name: str
) -> Iterator[tuple[ModuleIndex, ast.Call]]:
    """Calls of entries of the tables that hold what ``module`` defines under a name, as far as they reach it."""
    tested = project.is_test(module.path)
    seen = set[ast.Call]()
    for where in _users(project, module, name, tested):
        for table, has_all in sorted(_tables(where, name)):
            for user in _users(project, where, table, tested):
                for entry in _entries(user, table):
                    for place, call in _calls(project, user, entry, tested, MAX_STEPS):
                        known = has_all or any(ref.node is function for ref in resolver.callees(place, call))
                        if known and call not in seen:
                            seen.add(call)
                            yield place, call


def _users(project: Project, module: ModuleIndex, name: str, tested: bool) -> Iterator[ModuleIndex]:
    """The module, and those that may use what it binds to a name."""
    others = (user for user in project.users_of(module, {name}) if user is not module)
    yield module
    yield from (user for user in others if tested or not project.is_test(user.path))


def _tables(module: ModuleIndex, name: str) -> set[tuple[str, bool]]:
    """Names of the dictionaries of a module that hold something of a name, and whether as one of all classes that the
    module binds."""
    aliases = {name} | module.aliases.get(name, set())
    written = _written_tables(module)
    found = {(kept, False) for alias in aliases for kept in written.get(alias, ())}
    for made in module.syntax.of(ast.DictComp):
        if _is_of_members(made) and aliases & module.top.bindings.keys():
            found |= {(kept, True) for kept in _kept_as(module, made)}
    return found


@query
def _written_tables(module: ModuleIndex) -> dict[str, set[str]]:
    """Names of the dictionaries of a module, by the last names of the values that are written in them."""
    found: dict[str, set[str]] = {}
    for table in module.syntax.of(ast.Dict):
        names = {last_name(value) for value in table.values if isinstance(value, ast.Name | ast.Attribute)}
        if names and (kept := _kept_as(module, table)):
            for name in names:
                found.setdefault(name, set()).update(kept)
    return found


def _kept_as(module: ModuleIndex, table: ast.expr) -> set[str]:
    """Names that an assignment gives to a dictionary."""
    match module.syntax.parents.get(table):
        case ast.Assign(targets=targets):
            return {last_name(target) for target in targets} - {""}
        case ast.AnnAssign(target=target):
            return {last_name(target)} - {""}
    return set()


def _is_of_members(made: ast.DictComp) -> bool:
    """``{name: obj for name, obj in inspect.getmembers(sys.modules[__name__], inspect.isclass)}``"""
    match made:
        case ast.DictComp(value=ast.Name(), generators=[ast.comprehension(iter=ast.Call() as source)]):
            return last_name(source.func) == "getmembers" and "__name__" in ast.unparse(source)
    return False


def _entries(module: ModuleIndex, table: str) -> Iterator[ast.expr]:
    """Expressions of a module that take an entry out of a table."""
    for taken in module.syntax.of(ast.Subscript):
        if isinstance(taken.ctx, ast.Load) and last_name(taken.value) == table:
            yield taken


def _calls(
    project: Project, module: ModuleIndex, entry: ast.expr, tested: bool, steps: int
) -> Iterator[tuple[ModuleIndex, ast.Call]]:
    """Calls of an entry: on the spot, of the variable that holds it, or of what a getter returns."""
    function = module.function(entry)
    match module.syntax.parents.get(entry):
        case ast.Call(func=func) as call if func is entry:
            yield module, call
        case ast.Assign(targets=[ast.Name(id=name)]):
            for call in module.calls_by_name.get(name, ()):
                if isinstance(call.func, ast.Name) and module.function(call) is function:
                    yield module, call
            for returned in module.uses.get(name, ()):
                if (
                    isinstance(module.syntax.parents.get(returned), ast.Return)
                    and module.function(returned) is function
                ):
                    yield from _of_getter(project, module, function, tested, steps)
        case ast.Return():
            yield from _of_getter(project, module, function, tested, steps)


def _of_getter(
    project: Project, module: ModuleIndex, getter: FunctionNode | None, tested: bool, steps: int
) -> Iterator[tuple[ModuleIndex, ast.Call]]:
    """Calls of what the calls of a getter return."""
    if not isinstance(getter, FUNCTIONS) or not steps:
        return
    for user in _users(project, module, getter.name, tested):
        for call in user.calls_by_name.get(getter.name, ()):
            yield from _calls(project, user, call, tested, steps - 1)
