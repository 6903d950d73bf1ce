"""Loops that an argument of the call ends in their first round: ``def run(loader, single_step=False)``, whose loop ends
with ``if single_step: return loss``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import default_of
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loop_contexts import LoopContext
    from gpulint.workspace.module_index import FunctionNode


@query
def is_left_in_each_step(project: Project, where: NodeRef, few: int) -> bool:
    """Return whether the steps of a training call the function of a loop such that it ends after a few rounds: with an
    argument that ends it in the first (``run(single_step=True)``), or that is its number of rounds."""
    loop, module = where.node, where.module
    function = module.function(loop)
    if not isinstance(loop, ast.For | ast.AsyncFor) or function is None:
        return False
    tests = [
        test
        for statement in loop.body
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Break | ast.Return)
        for test in _all_of(statement.test)
    ]
    names = parameters(function)
    if not any(isinstance(part, ast.Name) and part.id in names for test in tests for part in walk(test)):
        return False
    steps = (
        context
        for context in project.fact(LoopContexts).enclosing_loops_of_function(module, function)
        if context.role is Role.STEP and context.calls and not _is_seldom(project, context)
    )
    return any(_holds(project, where, function, context.calls[-1], test, few) for context in steps for test in tests)


def _all_of(test: ast.expr) -> list[ast.expr]:
    """Return the tests of which any one is enough: those of an ``or``."""
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]


def _is_seldom(project: Project, context: LoopContext) -> bool:
    return any(project.fact(Guards).is_periodic(site.module, site.node) for site in context.calls)


def _holds(project: Project, where: NodeRef, function: FunctionNode, site: NodeRef, test: ast.expr, few: int) -> bool:
    """Return whether a call passes what makes a test hold in one of the first rounds."""
    match test:
        case ast.Name(id=name):
            return _passes(project, where, function, site, name, [True])
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
            return _passes(project, where, function, site, name, [False, None])
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq() | ast.Is()], comparators=[ast.Constant(value=value)]):
            return _passes(project, where, function, site, name, [value])
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Gt() | ast.GtE()], comparators=[limit]):
            names = [part.id for part in walk(limit) if isinstance(part, ast.Name)]
            counts = isinstance(where.node, ast.For) and _counts(where.node, left)
            return counts and len(names) == 1 and _passes(project, where, function, site, names[0], range(few + 1))
    return False


def _counts(loop: ast.For, left: ast.expr) -> bool:
    """Return whether a name counts the rounds of a loop: ``for i, batch in enumerate(loader)``, ``i + 1``."""
    if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):
        left = left.left
    match loop.target, loop.iter:
        case ast.Tuple(elts=[ast.Name(id=count), _]), ast.Call(func=ast.Name(id="enumerate")):
            return isinstance(left, ast.Name) and left.id == count
    return False


def _passes(
    project: Project,
    where: NodeRef,
    function: FunctionNode,
    site: NodeRef,
    name: str,
    values: list[object] | range,
) -> bool:
    """Return whether a call, or the default, gives a parameter that nothing else binds one of some values."""
    bindings = where.module.scope(function.body[0]).lookup(name)
    if name not in parameters(function) or len(bindings) != 1 or not isinstance(site.node, ast.Call):
        return False
    given, module = argument_of(function, site.node, name), site.module
    if given is None:
        given, module = default_of(function.args, name), where.module
    if given is None or isinstance(given, ast.Starred):
        return False
    known = project.fact(Constants).of(module, given)
    return known.every(lambda value: any(value is one or (value == one and type(value) is type(one)) for one in values))
