"""Code that runs only for a choice other than the default: a branch for another data set, one entry of a table."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from gpulint.assessment.choice_tables import is_other_entry
from gpulint.assessment.documented_choices import is_documented
from gpulint.query import query
from gpulint.semantic.callers import is_on_each_way
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, NodeRef, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

LEAST = 2
"""Branches on one value from which on each is a choice among several."""
MAX_BASES = 2
"""Most classes that inherit from each other of which instances are looked for."""


def is_other_choice(project: Project, module: ModuleIndex, node: ast.AST, depth: int = 1) -> bool:
    """Return whether a place runs only if a value is chosen that is not the default, or one of several entries builds
    it."""
    return is_on_each_way(project, NodeRef(module, node), partial(_is_other, project), depth)


def _is_other(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    if _is_entry(module, node) or is_other_entry(project, module, node):
        return True
    tests = [*conditions(module, node)]
    is_told = any(holds and is_documented(project, _named(test)) for test, holds in tests)
    return any(
        _excludes_default(project, module, test) if holds else not is_told and _is_default(project, module, test)
        for test, holds in tests
    )


def _named(test: ast.expr) -> tuple[object, ...]:
    """The text that a test asks for: ``name == "birds"``."""
    match test:
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value=str(wanted))]):
            return (wanted,)
    return ()


def is_known_other(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place runs, or a text is compared, only for a value other than those that an option or a
    parameter is known to have."""
    compared = module.syntax.parents.get(node)
    if isinstance(compared, ast.Compare) and _excludes_default(project, module, compared, known=True):
        return True
    return project.fact(Guards).is_off_by_default(module, node) or any(
        _excludes_default(project, module, test, known=True) if holds else _is_default(project, module, test)
        for test, holds in conditions(module, node)
    )


def is_never_chosen(project: Project, module: ModuleIndex, node: ast.AST, depth: int = 1) -> bool:
    """Return whether a place, or each call of its function, runs only if a value is chosen that is none of those which
    the code writes for it (``if self.kind == "mha"``, where all callers pass ``kind="nii"``)."""
    return is_on_each_way(project, NodeRef(module, node), partial(_is_behind_other_value, project), depth)


def _is_behind_other_value(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    return any(
        _is_never(project, module, part)
        for test, holds in conditions(module, node)
        for part, wanted in parts_of(test, holds)
        if wanted
    )


def _is_never(project: Project, module: ModuleIndex, test: ast.expr) -> bool:
    match test:
        case ast.Compare(
            left=ast.Name() | ast.Attribute() as left, ops=[ast.Eq()], comparators=[ast.Constant(value=str(wanted))]
        ):
            known = project.fact(Constants).of(module, left)
            return known.every(lambda value: isinstance(value, str) and value != wanted) and all(
                value.source == "literal" for value in known.values
            )
    return False


def is_way_of_choice(project: Project, places: Iterable[tuple[ModuleIndex, ast.AST]], loop: ast.AST) -> bool:
    """Return whether a call on the way from a loop to a place is only made if something else than the default is
    chosen."""
    return any(
        holds and _excludes_default(project, module, test)
        for module, node in places
        for test, holds in conditions(module, node, loop)
    )


def is_of_other_class(project: Project, module: ModuleIndex, node: ast.AST, depth: int = MAX_BASES) -> bool:
    """Return whether a place is in a class of which the program makes an instance only if something else than the known
    default is chosen (``elif args.model == "baseline": model = Baseline()``), as of those that inherit from it."""
    owner = module.class_of(node)
    init = next((part for part in owner.body if getattr(part, "name", "") == "__init__"), None) if owner else None
    if isinstance(init, FUNCTIONS):
        sites = list(project.fact(Resolver).call_sites(module, init))
    else:
        sites = _made(project, module, owner) if owner is not None else []
    guards = project.fact(Guards)
    return bool(sites) and all(
        guards.is_off_by_default(site.module, site.node)
        or (depth > 0 and _inherits(site) and is_of_other_class(project, site.module, site.node, depth - 1))
        or any(
            holds and _excludes_default(project, site.module, test, known=True)
            for test, holds in conditions(site.module, site.node)
        )
        for site in sites
    )


@query
def _made(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> list[NodeRef]:
    """Return the calls by which programs make an object of a class that has no constructor; none if there are others,
    by a class that inherits from it or by another name of it."""
    if project.word_index.subclass_files(word_of(owner.name)):
        return []
    resolver, found = project.fact(Resolver), list[NodeRef]()
    target = resolver.names(module, owner)
    for where in dict.fromkeys((module, *project.callers_of(module, {owner.name}))):
        calls = [call for call in where.calls_by_name.get(owner.name, ()) if resolver.names(where, call.func) & target]
        called = {call.func for call in calls}
        if any(use not in called and resolver.names(where, use) & target for use in where.uses.get(owner.name, ())):
            return []
        found += [NodeRef(where, call) for call in calls]
    return found


def _inherits(site: NodeRef) -> bool:
    """``super().__init__()``"""
    return isinstance(site.node, ast.Call) and last_name(site.node.func) == "__init__"


def _is_entry(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a function that is in a table with others makes it (``{"a": lambda: ..., "b": lambda: ...}``)."""
    for up in module.syntax.ancestors(node):
        if isinstance(up, ast.Lambda):
            table = next(
                (above for above in module.syntax.ancestors(up) if isinstance(above, ast.Dict | ast.stmt)), None
            )
            return isinstance(table, ast.Dict) and len(table.keys) >= LEAST
        if isinstance(up, ast.stmt):
            return False
    return False


def _excludes_default(project: Project, module: ModuleIndex, test: ast.expr, known: bool = False) -> bool:
    """Return whether ``name == "other"`` is false for every value that ``name`` is known to have, or is one of a chain
    for an unknown, unless it has to be ``known``."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_excludes_default(project, module, value, known) for value in values)
        case ast.BoolOp(op=ast.Or(), values=values):
            fails = project.fact(Guards).is_false_by_default
            return all(_excludes_default(project, module, one, True) or fails(module, one) for one in values)
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=str(wanted))]):
            choices: tuple[object, ...] = (wanted,)
        case ast.Compare(left=left, ops=[ast.In()], comparators=[ast.List() | ast.Tuple() | ast.Set() as among]):
            choices = tuple(item.value for item in among.elts if isinstance(item, ast.Constant))
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=int(number))]):
            return type(number) is int and _is_other_number(project, module, left, number)
        case _:
            return False
    if isinstance(left, ast.Call) and isinstance(left.func, ast.Attribute) and left.func.attr in ("lower", "strip"):
        left = left.func.value
    chosen = [value for value in project.fact(Constants).of(module, left).constants if isinstance(value, str)]
    if chosen:
        is_chosen = any(value in choices or value.lower() in choices for value in chosen)
        return not is_chosen and not is_documented(project, choices)
    return not known and _is_in_chain(module, test)


def _is_default(project: Project, module: ModuleIndex, test: ast.expr) -> bool:
    """Return whether ``name == "value"`` is true for every value that ``name`` is known to have."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=str(wanted))]):
            values = project.fact(Constants).of(module, left).values
            return bool(values) and all(one.value == wanted and one.source != "literal" for one in values)
    return False


def _is_other_number(project: Project, module: ModuleIndex, left: ast.expr, number: int) -> bool:
    """Return whether an option that numbers its choices (``--mix-method``) has other ones, by default and in all
    commands and configurations."""
    known = project.fact(Constants).of(module, left)
    return bool(known.values) and all(
        value.source != "literal" and type(value.value) is int and value.value != number for value in known.values
    )


def _is_in_chain(module: ModuleIndex, test: ast.expr) -> bool:
    """Return whether it is one of three or more branches on one value."""
    first = module.syntax.parents.get(test)
    while (
        isinstance(first, ast.If)
        and isinstance(up := module.syntax.parents.get(first), ast.If)
        and up.orelse == [first]
    ):
        first = up
    count = 0
    while isinstance(first, ast.If):
        count += 1
        first = first.orelse[0] if len(first.orelse) == 1 and isinstance(first.orelse[0], ast.If) else None
    return count > LEAST
