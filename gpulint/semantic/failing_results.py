"""Code that raises an error whenever it runs: it unpacks what a function does not return, calls with arguments that do
not fit, or uses what nothing defines, of a name or an option."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk, walk_own
from gpulint.query import cyclic
from gpulint.semantic.absent_members import absent_members
from gpulint.semantic.absent_options import (
    absent_options,
    is_missing,
    is_parameter_of,
    options_missing,
    reads_of_parameters,
)
from gpulint.semantic.argument_binding import CallbackCall, argument_of
from gpulint.semantic.failing_calls import constructor_of, does_not_fit, is_only, only_method
from gpulint.semantic.failing_names import absent_attributes, undefined_names
from gpulint.semantic.generator_results import misused_generators
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.unfit_arguments import fails_within, takes_steps, works_before
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, NodeRef, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.project import Project
    from gpulint.workspace.module_index import FunctionNode, ModuleIndex

_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
MAX_BASES = 3
"""Most constructors of bases that are followed."""
_NO_READS: tuple[tuple[NodeRef, str], ...] = ()
_NONE: tuple[ast.expr, ...] = ()
_SEPARATE = (*FUNCTIONS, ast.Lambda, ast.ClassDef)
_CATCHES = (ast.Try, ast.TryStar, ast.ExceptHandler, ast.Match, ast.ListComp, ast.SetComp, ast.DictComp)
_MAYBE = (*_CATCHES, *_SEPARATE, ast.GeneratorExp, ast.BoolOp, ast.IfExp, ast.Assert, ast.ExceptHandler)
_PLAIN = (ast.Assign, ast.AnnAssign, ast.Expr, ast.Import, ast.ImportFrom, ast.Assert)
_CATCHERS = frozenset({"suppress", "raises", "assertRaises", "catch"})


@cyclic(_NONE)
def failures(project: Project, module: ModuleIndex, block: ast.AST) -> tuple[ast.expr, ...]:
    """Return what raises an error in each run of a function, loop or module: names and options that nothing defines,
    calls that do not fit, of functions that raise an error always or with what they get, values that are not what
    they are unpacked to (``_, accuracy = score(output, target)``), and items of generators."""
    calls = [part for part in walk(block) if isinstance(part, ast.Call)]
    undefined = (*undefined_names(project, module), *absent_attributes(project, module))
    members = (*absent_members(project, module), *misused_generators(project, module))
    names = [*undefined, *absent_options(project, module), *members]
    found = [
        *(name for name in names if block in module.syntax.ancestors(name)),
        *(call for call in calls if _unpacks(project, module, call)),
        *(call for call in calls if does_not_fit(project, module, call) or _always_fails(project, module, call)),
        *(call for call in calls if fails_within(project, module, call) is not None),
        *(call for call in calls if lacks_options(project, module, call)),
    ]
    always = [part for part in found if _always(module, part, block)]
    return (*always, *_failing_choices(module, [part for part in found if part not in always], block))


def _failing_choices(module: ModuleIndex, parts: list[ast.expr], block: ast.AST) -> Iterator[ast.expr]:
    """Yield a failing part of each ``if`` that runs one of them in all its branches. One without ``else`` has to
    define what is used below it and nowhere else."""
    statements = {up: part for part in parts for up in module.syntax.ancestors(part) if isinstance(up, ast.stmt)}
    chains = (one for one in statements if isinstance(one, ast.If) and one in getattr(block, "body", ()))
    for chain in chains:
        branches = list(_branches(chain))
        first = [_first_failing(branch, statements) for branch in branches if branch]
        failing = [one for one in first if one is not None]
        if len(failing) < len(first) or not _always(module, chain, block) or statements.keys().isdisjoint(failing):
            continue
        if all(branches) or _leaves_undefined(module, chain, failing, block):
            yield max((statements[one] for one in failing if one in statements), key=lambda part: part.lineno)


def _branches(chain: ast.If) -> Iterator[list[ast.stmt]]:
    """Yield the branches of an ``if`` with all its ``elif``; an ``else`` that is not there is empty."""
    yield chain.body
    match chain.orelse:
        case [ast.If() as inner]:
            yield from _branches(inner)
        case other:
            yield other


def _first_failing(branch: list[ast.stmt], statements: dict[ast.stmt, ast.expr]) -> ast.stmt | None:
    """The statement of a branch that fails, below others that do no more than compute or import something."""
    for statement in branch:
        if isinstance(statement, ast.Raise):
            return statement
        if not isinstance(statement, _PLAIN):
            return None
        part = statements.get(statement)
        if part is not None:
            return statement if not any(isinstance(one, (*_CATCHES, *_MAYBE)) for one in walk(statement)) else None
    return None


def _leaves_undefined(module: ModuleIndex, chain: ast.If, failing: list[ast.stmt], block: ast.AST) -> bool:
    """Return whether a name that the branches of an ``if`` would define, and nothing else does, is used below it."""
    if any(alias.name == "*" for one in module.syntax.of(ast.ImportFrom) for alias in one.names):
        return False
    runs = (one for one in failing if not isinstance(one, ast.Raise))
    wanted = [{target.id for target in _targets(one) if isinstance(target, ast.Name)} for one in runs]
    for name in sorted(set.intersection(*wanted)) if wanted else ():
        bindings = module.scope(chain).lookup(name)
        inside = all(chain in module.syntax.ancestors(one.node) for one in bindings)
        if inside and not any(name in one.names for one in module.syntax.of(ast.Global)):
            below = (use for use in module.uses.get(name, ()) if use.lineno > (chain.end_lineno or chain.lineno))
            if any(isinstance(use.ctx, ast.Load) and _always(module, use, block) for use in below):
                return True
    return False


def _targets(statement: ast.stmt) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else []


@cyclic(False)
def _always_fails(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call is of a function or method of the tree that raises an error in each run."""
    method = only_method(project, module, call)
    if method is not None:
        return isinstance(method.node, ast.FunctionDef) and _always_raises(project, method.module, method.node)
    if not isinstance(call.func, ast.Name):
        return False
    found = project.fact(Resolver).callees(module, call)
    if len(found) != 1 or not isinstance(found[0].node, ast.FunctionDef) or found[0].node.decorator_list:
        return False
    function, where = found[0].node, found[0].module
    return function.name == call.func.id and _always_raises(project, where, function)


@cyclic(False)
def _always_raises(project: Project, where: ModuleIndex, function: ast.FunctionDef) -> bool:
    is_method = isinstance(where.syntax.parents[function], ast.ClassDef)
    if _yields(function) or not (is_method or function in where.syntax.tree.body):
        return False
    ends = () if is_method else function.body  # a method may be there for others to override it
    raises = (part for part in ends if isinstance(part, ast.Raise) and _always(where, part, function))
    found = (*raises, *failures(project, where, function))
    return any(not works_before(where, part, function) for part in found)


@cyclic(False)
def lacks_options(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call hands the arguments of its program to a function or constructor that reads more of them,
    at the latest in its first step."""
    if not isinstance(call.func, ast.Name) or isinstance(call, CallbackCall):
        return False
    if (made := _made_by(project, module, call)) is not None:
        constructor = NodeRef(*made)
        reads = _constructor_reads(project, *made, MAX_BASES)
        return any(is_missing(project, module, call, constructor, read, name) for read, name in reads)
    found = project.fact(Resolver).callees(module, call)
    if len(found) != 1 or not isinstance(found[0].node, ast.FunctionDef) or found[0].node.decorator_list:
        return False
    function, where = found[0].node, found[0].module
    missing = options_missing(project, module, call, found[0])
    return (
        bool(missing)
        and function in where.syntax.tree.body
        and not _yields(function)
        and any(
            _always(where, part, function) and not works_before(where, part, function, step_of(where, part))
            for part in missing
        )
    )


def _made_by(project: Project, module: ModuleIndex, call: ast.Call) -> tuple[ModuleIndex, FunctionNode] | None:
    """Return the constructor that a call of a class of the tree runs."""
    found = project.fact(Resolver).points_to(module, call.func)
    if (
        len(found) != 1
        or found[0].path
        or not isinstance(found[0].node, ast.ClassDef)
        or not is_only(project, found[0])
    ):
        return None
    return _constructor(project, found[0])


def _constructor(project: Project, made: NodeRef) -> tuple[ModuleIndex, FunctionNode] | None:
    found = constructor_of(project, made)
    owners = project.fact(Resolver).mro(made.module, made.node) if isinstance(made.node, ast.ClassDef) else []
    return next(((where, found) for where, owner in owners if found in owner.body), None) if found else None


@cyclic(_NO_READS)
def _constructor_reads(
    project: Project, module: ModuleIndex, function: FunctionNode, steps: int
) -> tuple[tuple[NodeRef, str], ...]:
    """Return what a constructor, or that of its base which it hands a parameter to, reads in any case of its
    parameters that are named like the arguments of a program, each with the name of its own parameter."""
    if not isinstance(function, ast.FunctionDef):
        return ()
    reads = [
        (NodeRef(module, part), name)
        for part, name in reads_of_parameters(module, function)
        if _always(module, part, function)
    ]
    for call in module.calls_by_name.get("__init__", ()) if steps else ():
        owner = module.class_of(function)
        if owner is None or not _is_of_base(call) or not _always(module, call, function):
            continue
        bases = project.fact(Resolver).bases(module, owner)
        above = _constructor(project, NodeRef(*bases[0])) if len(bases) == 1 == len(owner.bases) else None
        if above is None:
            continue
        for read, name in _constructor_reads(project, *above, steps - 1):
            handed = argument_of(above[1], call, name)
            if isinstance(handed, ast.Name) and is_parameter_of(module.scope(handed).lookup(handed.id), function):
                reads.append((read, handed.id))
    return tuple(reads)


def _is_of_base(call: ast.Call) -> bool:
    above = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(above, ast.Call) and last_name(above.func) == "super"


def step_of(module: ModuleIndex, node: ast.AST) -> ast.AST | None:
    """Return the innermost loop with a backward pass in it around a node."""
    return next((up for up in module.syntax.ancestors(node) if isinstance(up, LOOPS) and takes_steps(up)), None)


def _unpacks(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a statement unpacks what a call returns, which is nothing, or another number of values."""
    match module.syntax.parents.get(call):
        case ast.Assign(targets=[ast.Tuple(elts=wanted) | ast.List(elts=wanted)], value=value) if value is call:
            found = project.fact(Resolver).callees(module, call) if isinstance(call.func, ast.Name) else []
            return len(found) == 1 and isinstance(found[0].node, ast.FunctionDef) and _differs(found[0].node, wanted)
    return False


def _differs(function: FunctionNode, wanted: list[ast.expr]) -> bool:
    if function.decorator_list or _yields(function):
        return False
    if _returns_nothing(function):
        return True
    returned = [part.value for part in walk_own(function) if isinstance(part, ast.Return)]
    return not any(isinstance(one, ast.Starred) for one in wanted) and all(
        isinstance(value, ast.Tuple)
        and len(value.elts) != len(wanted)
        and not any(isinstance(one, ast.Starred) for one in value.elts)
        for value in returned
    )


def _yields(function: FunctionNode) -> bool:
    return any(isinstance(part, ast.Yield | ast.YieldFrom) for part in walk(function))


def _returns_nothing(function: FunctionNode) -> bool:
    return not any(isinstance(part, ast.Return) and part.value is not None for part in walk(function))


def _always(module: ModuleIndex, node: ast.AST, block: ast.AST) -> bool:
    """Return whether each run of a block gets to a node, and nothing catches its error."""
    below = node
    for up in module.syntax.ancestors(node):
        if up is block:
            return _is_reached(module, node, below, block)
        if isinstance(up, _MAYBE):
            return False
        if isinstance(up, LOOPS) and not _is_first(up, below) and not _is_of_a_step(module, up, below, block):
            return False
        if isinstance(up, ast.With | ast.AsyncWith) and any(
            last_name(item.context_expr.func) in _CATCHERS
            for item in up.items
            if isinstance(item.context_expr, ast.Call)
        ):
            return False
        below = up
    return False


def _is_first(loop: ast.AST, part: ast.AST) -> bool:
    """Return whether a loop runs a part of it in any case: what it iterates over, or the body, if it trains."""
    if isinstance(loop, ast.For) and part is loop.iter:
        return True
    return part in getattr(loop, "body", ()) and (takes_steps(loop) or _counts_epochs(loop))


def _is_of_a_step(module: ModuleIndex, loop: ast.AST, part: ast.AST, block: ast.AST) -> bool:
    """Return whether a loop draws batches for the one backward pass of a function, so that it has a round."""
    if not isinstance(block, FUNCTIONS) or not isinstance(loop, ast.For) or part not in loop.body:
        return False
    return isinstance(loop.iter, ast.Call | ast.Name) and any(
        isinstance(one, ast.Attribute)
        and one.attr == "backward"
        and one.lineno > loop.lineno
        and module.function(one) is block
        for one in walk(block)
    )


def _counts_epochs(loop: ast.AST) -> bool:
    return isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and "epoch" in loop.target.id.lower()


def _is_reached(module: ModuleIndex, node: ast.AST, below: ast.AST, block: ast.AST) -> bool:
    if isinstance(block, ast.For) and below is block.iter:
        return True
    body = getattr(block, "body", [])
    if below not in body or any(isinstance(one, _ENDS) for one in body[: body.index(below)]):
        return False
    exits = (part for part in walk(block) if isinstance(part, _ENDS) and part.lineno < getattr(node, "lineno", 0))
    if any(module.function(part) is module.function(node) for part in exits):
        return False
    return all(holds and _holds_at_first(module, test, node) for test, holds in conditions(module, node, block))


def _holds_at_first(module: ModuleIndex, test: ast.expr, node: ast.AST) -> bool:
    """Return whether a test is true in the first round of a loop around a node that counts its rounds: ``step % 50 == 0
    or step == last``."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(_holds_at_first(module, value, node) for value in values)
        case ast.Compare(
            left=ast.BinOp(left=ast.Name(id=counter), op=ast.Mod()), ops=[ast.Eq()], comparators=[ast.Constant(value=0)]
        ):
            loops = (up for up in module.syntax.ancestors(node) if isinstance(up, ast.For))
            return any(_counts_in(loop, counter) for loop in loops) and len(module.scope(node).lookup(counter)) == 1
    return False


def _counts_in(loop: ast.For, counter: str) -> bool:
    """Return whether a loop counts its rounds from 0 in a variable."""
    match loop:
        case ast.For(
            target=ast.Tuple(elts=[ast.Name(id=name), *_]),
            iter=ast.Call(func=ast.Name(id="enumerate"), args=[_], keywords=[]),
        ):
            return name == counter
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[_], keywords=[])):
            return name == counter
    return False
