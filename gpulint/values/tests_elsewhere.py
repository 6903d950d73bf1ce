"""Tests that are elsewhere: what a name was given, what callers pass for a switch, what attributes and properties say
(``if self.is_due:``)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import default_of
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.attribute_sources import is_property
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, FunctionNode, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project

_TESTS = (ast.If, ast.IfExp, ast.While, ast.BoolOp, ast.UnaryOp)


def properties(project: Project, module: ModuleIndex, node: ast.Attribute) -> list[NodeRef]:
    """Return the functions that give the value of a property where a test asks whether it is true."""
    if not isinstance(module.syntax.parents.get(node), _TESTS):
        return []
    resolver = project.fact(Resolver)
    found = [
        (where, binding.node)
        for home, owner in resolver.classes_of(module, node.value)
        for where, binding in resolver.class_attribute(home, owner, node.attr)
    ]
    functions = [(where, one) for where, one in found if isinstance(one, FUNCTIONS) and is_property(one)]
    return [NodeRef(where, one) for where, one in functions] if len(functions) == len(found) else []


def kept_tests(project: Project, module: ModuleIndex, node: ast.Attribute) -> list[tuple[ModuleIndex, ast.expr]]:
    """Return all that the methods of an object assign to its attribute where a test asks whether that is true
    (``self.due = step % 100 == 0``); [] if some is unknown, or none is a comparison."""
    if not isinstance(module.syntax.parents.get(node), _TESTS):
        return []
    resolver = project.fact(Resolver)
    found = [
        (where, binding.value if binding.kind is BindingKind.ASSIGN and not binding.path else None)
        for home, owner in resolver.classes_of(module, node.value)
        for where, binding in resolver.class_attribute(home, owner, node.attr)
    ]
    known = [(where, value) for where, value in found if value is not None]
    compares = any(isinstance(value, ast.Compare) for _, value in known)
    return known if compares and len(known) == len(found) else []


def named_test(module: ModuleIndex, name: ast.Name) -> ast.expr | None:
    """The comparison that a name was given (``log_now = step % 100 == 0``), when it is given only that one."""
    bindings = module.scope(name).lookup(name.id)
    value = bindings[0].value if len(bindings) == 1 else None
    return value if isinstance(value, ast.Compare | ast.BoolOp | ast.UnaryOp) else None


def passed_tests(project: Project, module: ModuleIndex, name: ast.Name) -> list[tuple[ModuleIndex, ast.expr]]:
    """The comparisons that callers pass for a switch which is off by default (``log=step % 25 == 0``); [] if one passes
    something else."""
    bindings = module.scope(name).lookup(name.id)
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.PARAMETER:
        return []
    function = bindings[0].scope.node
    if not isinstance(function, FUNCTIONS) or not _is_off_by_default(function, name.id):
        return []
    found: list[tuple[ModuleIndex, ast.expr]] = []
    for site in project.fact(Resolver).first_sites(module, function):
        given = argument_of(function, site.node, name.id) if isinstance(site.node, ast.Call) else None
        if given is None or (isinstance(given, ast.Constant) and not given.value):
            continue
        tests = _given_tests(site.module, given)
        if not all(isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp) for test in tests):
            return []
        found += [(site.module, test) for test in tests if test is not None]
    return found


def _given_tests(module: ModuleIndex, given: ast.expr) -> list[ast.expr | None]:
    """The comparison that an argument is or is named for, also times a number (``due * step``)."""
    if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Mult):
        for side in (given.left, given.right):
            found = _given_tests(module, side)
            if all(isinstance(test, ast.Compare | ast.BoolOp) for test in found):
                return found
    bound = module.scope(given).lookup(given.id) if isinstance(given, ast.Name) else ()
    return [binding.value for binding in reaching(module, bound, given)] if bound else [given]


def _is_off_by_default(function: FunctionNode, name: str) -> bool:
    """Return whether a parameter is ``False`` or ``None`` by default."""
    value = default_of(function.args, name)
    return isinstance(value, ast.Constant) and not value.value
