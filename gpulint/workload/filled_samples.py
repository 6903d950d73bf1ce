"""Samples that a data set reads when it is made: what its methods do for those that are missing never runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.call_values import truth
from gpulint.workspace.module_index import COMPREHENSIONS, FUNCTIONS, LOOPS, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_MAKES = frozenset("array asarray cat concat concatenate from_numpy list load stack tensor tuple vstack".split())
"""Functions whose result is no None, and empty only for an empty data set."""
_ADDS = frozenset({"append", "extend", "add", "update"})
_STEPS = 3
"""How many calls deep the methods that a constructor calls are followed."""


@query
def filled_attributes(project: Project, owner: NodeRef, made: NodeRef) -> frozenset[str]:
    """Return the attributes that the constructor of a class surely fills, as the expression ``made`` calls it, and that
    no other method empties: ``self.images = [read(path) for path in paths]``."""
    resolver = project.fact(Resolver)
    assert isinstance(owner.node, ast.ClassDef)
    init = resolver.method(owner.module, owner.node, "__init__")
    if init is None or not isinstance(init.node, FUNCTIONS):
        return frozenset()
    run, filled = [(init, (made,) if isinstance(made.node, ast.Call) else ())], set[str]()
    for method, calls in run:
        for part in walk(method.node):
            if not (name := _filled(method.module, part)) and not isinstance(part, ast.Call):
                continue
            if not _runs(project, method.module, part, calls):
                continue
            filled |= {name} if name else set()
            called = own_method(project, owner, NodeRef(method.module, part))
            if called is not None and len(run) <= _STEPS and all(called.node is not one.node for one, _ in run):
                run.append((called, ()))
    methods = {one.node for one, _ in run}
    return frozenset(filled) - {name for method in _others(project, owner, methods) for name in _emptied_by(method)}


def own_method(project: Project, owner: NodeRef, at: NodeRef) -> NodeRef | None:
    """Return the method that a call on ``self``, in a method of a class or of a base, runs for objects of the class."""
    assert isinstance(owner.node, ast.ClassDef)
    match at.node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if is_inside(project, owner, at):
            found = project.fact(Resolver).method(owner.module, owner.node, name)
            return found if found is not None and isinstance(found.node, FUNCTIONS) else None
    return None


def is_inside(project: Project, owner: NodeRef, at: NodeRef) -> bool:
    """Return whether a place is in a class, or in a base of it."""
    assert isinstance(owner.node, ast.ClassDef)
    around = at.module.class_of(at.node)
    return any(base is around for _, base in project.fact(Resolver).mro(owner.module, owner.node))


def runs_for_missing(module: ModuleIndex, part: ast.AST, filled: frozenset[str]) -> bool:
    """Return whether a part of a method runs only where one of the filled attributes is empty (``if self.images is
    None: return read(self.paths[index])``)."""
    return bool(filled) and any(_holds(test, filled) is (not holds) for test, holds in conditions(module, part))


def calls_for_missing(project: Project, owner: NodeRef, made: NodeRef) -> frozenset[str]:
    """Return what the method that gives out samples calls only for those that the constructor has not filled in."""
    filled = filled_attributes(project, owner, made)
    assert isinstance(owner.node, ast.ClassDef)
    getter = project.fact(Resolver).method(owner.module, owner.node, "__getitem__") if filled else None
    if getter is None:
        return frozenset()
    calls = [part for part in walk(getter.node) if isinstance(part, ast.Call)]
    left = {ast.unparse(call.func) for call in calls if runs_for_missing(getter.module, call, filled)}
    return frozenset(
        left - {ast.unparse(one.func) for one in calls if not runs_for_missing(getter.module, one, filled)}
    )


def _runs(project: Project, module: ModuleIndex, part: ast.AST, calls: tuple[NodeRef, ...]) -> bool:
    """Return whether each condition around a part of a function is known to hold."""
    return all(truth(project, module, test, calls) is holds for test, holds in conditions(module, part))


def _filled(module: ModuleIndex, part: ast.AST) -> str:
    """Return the attribute that a part of a method fills with samples; empty if it fills none."""
    match part:
        case (
            ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value)
            | ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), value=ast.expr() as value)
        ):
            return name if _is_full(value) else ""
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name), attr=adds), args=[_]
        ):
            return name if adds in _ADDS and _is_repeated(module, part) else ""
    return ""


def _is_full(value: ast.expr) -> bool:
    return isinstance(value, COMPREHENSIONS) or (
        isinstance(value, ast.Call) and bool(value.args) and last_name(value.func) in _MAKES
    )


def _is_repeated(module: ModuleIndex, part: ast.AST) -> bool:
    for up in module.syntax.ancestors(part):
        if isinstance(up, LOOPS):
            return True
        if isinstance(up, FUNCTIONS):
            return False
    return False


def _others(project: Project, owner: NodeRef, run: set[ast.AST]) -> Iterator[NodeRef]:
    """The methods of a class and its bases that its constructor does not call."""
    assert isinstance(owner.node, ast.ClassDef)
    for module, base in project.fact(Resolver).mro(owner.module, owner.node):
        yield from (NodeRef(module, part) for part in base.body if isinstance(part, FUNCTIONS) and part not in run)


def _emptied_by(method: NodeRef) -> set[str]:
    """Return the attributes that a method sets, or empties, without filling them."""
    changed = set[str]()
    for part in walk(method.node):
        match part:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store() | ast.Del()):
                changed.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name), attr="clear")):
                changed.add(name)
    return changed - {_filled(method.module, part) for part in walk(method.node)}


def _holds(test: ast.expr, filled: frozenset[str]) -> bool | None:
    """Return whether a test holds where the attributes are filled; None if they say nothing of it."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            found = _holds(inner, filled)
            return None if found is None else not found
        case ast.BoolOp(op=joins, values=values):
            told, decisive = [_holds(value, filled) for value in values], isinstance(joins, ast.Or)
            return decisive if decisive in told else None if None in told else not decisive
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as compares], comparators=[ast.Constant(value=None)]):
            return isinstance(compares, ast.IsNot) if _is_filled(left, filled) else None
        case ast.Compare(
            left=left, ops=[ast.Gt() | ast.NotEq() | ast.Eq() as compares], comparators=[ast.Constant(value=0)]
        ):
            return not isinstance(compares, ast.Eq) if _holds(left, filled) else None
        case ast.Call(func=ast.Name(id="len"), args=[held]):
            return _is_filled(held, filled) or None
        case ast.Call(func=ast.Name(id="hasattr"), args=[ast.Name(id="self"), ast.Constant(value=name)]):
            return name in filled or None
        case ast.Attribute():
            return _is_filled(test, filled) or None
    return None


def _is_filled(value: ast.expr, filled: frozenset[str]) -> bool:
    return isinstance(value, ast.Attribute) and last_name(value.value) == "self" and value.attr in filled
