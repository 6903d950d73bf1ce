"""What a training loop does in all of its steps."""

from __future__ import annotations

import ast
import itertools
import re

from gpulint_rules.data.needed_waits import value_tests

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.cuda_tests import excludes_cuda
from gpulint.training.default_tests import is_by_choice
from gpulint.training.guards import Guards
from gpulint.training.phases import only_evaluates
from gpulint.values.remainders import is_in_most_rounds
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, ModuleIndex, NodeRef, last_name, source_text
from gpulint_fixers.waits.unknown_reads import unknown_reads

_FIRST_PROCESS = regex.compile(
    r"\b(local_|global_)?rank\b|\bis_(main|master)\b|main_process|rank_zero|global_zero|get_rank"
)
_LIGHTNING = frozenset({"pytorch_lightning", "lightning"})
_OPTIMIZER = regex.compile(r"opt|scaler|solver|adam|sgd", re.IGNORECASE)


def holds_in_all_steps(module: ModuleIndex, test: ast.expr, loop: ast.AST | None) -> bool:
    """Return whether a test holds in all steps of a process, where it holds in one: ``rank == 0``, ``self.tracker is
    not None``, ``args.log``.

    The others wait for the process of rank 0 when they exchange gradients.
    """
    match test:
        case ast.Compare(
            left=ast.Name() | ast.Attribute() as left, ops=[ast.IsNot()], comparators=[ast.Constant(None)]
        ):
            return not is_by_choice(module, test) and (loop is None or ast.unparse(left) not in _set_in(module, loop))
        case ast.Compare(left=ast.Constant(value=str()), ops=[ast.In()]):
            return True  # what batches and outputs have, they have in all steps
        case ast.Call(func=ast.Attribute(attr="any" | "all"), args=[], keywords=[]):
            return True  # a mask: the test waits whether it holds or not
        case ast.BoolOp(op=ast.And(), values=values):
            return all(holds_in_all_steps(module, value, loop) for value in values)
        case ast.Name() | ast.Attribute() if loop is not None and ast.unparse(test) not in _set_in(module, loop):
            return True  # a switch, which is on: what is off by default is not reported
        case ast.Compare(ops=[ast.Eq() | ast.Is()]) | ast.Name() | ast.Attribute() | ast.Call():
            return _FIRST_PROCESS.search(source_text(module, test)) is not None
    return False


def branches_around(module: ModuleIndex, statement: ast.AST, loop: ast.AST | None) -> frozenset[ast.AST]:
    """The branches of the loop's body, or of a function's, that a statement is in and some steps leave out."""
    around = list(itertools.takewhile(lambda up: up is not loop, module.syntax.ancestors(statement)))
    inner = [statement, *around]
    while inner and not isinstance(inner[0], ast.stmt):  # a test runs whenever its statement does
        del inner[0]
    found = set[ast.AST]()
    for node, up in itertools.pairwise(inner):
        if isinstance(up, ast.match_case) and node in up.body:
            found.add(up.body[0])
        if not isinstance(up, ast.If):
            continue
        here, others = (up.body, up.orelse) if node in up.body else (up.orelse, up.body)
        if others and isinstance(others[-1], ast.Raise):
            continue  # whatever goes on has come through this branch
        if excludes_cuda(module, up.test, here is not up.body):
            continue  # the other one is without a GPU, for which nothing waits
        if here is up.body and (_is_of_tensors(up.test) or holds_in_all_steps(module, up.test, loop)):
            continue
        if is_in_most_rounds(module, up.test, here is up.body):
            continue
        found.add(here[0])
    return frozenset(found)


def _is_of_tensors(test: ast.expr) -> bool:
    """``isinstance(loss, torch.Tensor)``: what waits there waits for tensors, which come in each step or in none."""
    match test:
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
            return last_name(kind) == "Tensor"
        case ast.Call(func=func, args=[_]):
            return last_name(func) == "is_tensor"
    return False


def chosen_branches(module: ModuleIndex, statement: ast.AST) -> frozenset[ast.AST]:
    """The branches of a function around a statement that a setting chooses by its name: ``if args.encoder == "bert":``;
    other settings do not run it at all."""
    return frozenset(
        first
        for first in branches_around(module, statement, module.function(statement))
        if isinstance(branch := module.syntax.parents.get(first), ast.If)
        and first is branch.body[0]
        and _is_choice(branch.test)
    )


def _is_choice(test: ast.expr) -> bool:
    match test:
        case ast.Compare(left=ast.Attribute(), ops=[ast.Eq() | ast.In()], comparators=[named]):
            names = named.elts if isinstance(named, ast.List | ast.Tuple | ast.Set) else [named]
            return all(isinstance(name, ast.Constant) and isinstance(name.value, str) for name in names)
    return False


def micro_batches(module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether each step of a loop around this one goes through all of it: the outer one has the optimizer's
    step, and this one adds up gradients."""
    outer = next((up for up in module.syntax.ancestors(loop) if isinstance(up, (*LOOPS, *FUNCTIONS))), None)
    if not isinstance(outer, LOOPS):
        return False
    inside = set(walk(loop))
    calls = [part for part in walk(outer) if isinstance(part, ast.Call)]
    emptied = {ast.unparse(part.func.value) for part in calls if _is_method(part, "zero_grad")}  # type: ignore[attr-defined]
    steps = [
        part
        for part in calls
        if is_optimizer_step(part) or (_is_method(part, "step") and ast.unparse(part.func.value) in emptied)  # type: ignore[attr-defined]
    ]
    return bool(steps) and not any(step in inside for step in steps)


def _is_method(call: ast.Call, name: str) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == name


def trains_inside(module: ModuleIndex, statement: ast.AST, loop: ast.AST) -> bool:
    """Return whether each round of a loop goes through another one with backward passes and steps of an optimizer,
    which a statement is not in."""
    around = set(module.syntax.ancestors(statement))
    return any(inner not in around for inner in _trainings(module, loop))


@query
def _trainings(_module: ModuleIndex, loop: ast.AST) -> tuple[ast.AST, ...]:
    """The loops inside of one that have backward passes and steps of an optimizer."""
    found = list[ast.AST]()
    for inner in walk(loop):
        if isinstance(inner, LOOPS) and inner is not loop:
            calls = [part for part in walk(inner) if isinstance(part, ast.Call)]
            if any(map(is_optimizer_step, calls)) and any(last_name(call.func) == "backward" for call in calls):
                found.append(inner)
    return tuple(found)


def is_read_by_optimizer(module: ModuleIndex, statement: ast.AST) -> bool:
    """Return whether a statement is in a closure for L-BFGS, which reads the loss that each call of it returns."""
    function = module.function(statement)
    if not isinstance(function, ast.FunctionDef) or "LBFGS" not in module.syntax.source.text:
        return False
    return any(
        isinstance(argument, ast.Name) and argument.id == function.name
        for call in module.calls_by_name.get("step", [])
        for argument in call.args
    )


def is_optimizer_step(call: ast.Call) -> bool:
    """``optimizer.step()``, ``scaler.step(optimizer)``"""
    match call.func:
        case ast.Attribute(attr="step", value=owner):
            return _OPTIMIZER.search(last_name(owner)) is not None
    return False


def steps_over_batches(loop: ast.AST) -> bool:
    """Return whether a loop that does steps of an optimizer goes through a loader, and not a number of rounds."""
    counted = not isinstance(loop, ast.For) or (
        isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) in ("range", "trange")
    )
    return not counted and any(isinstance(part, ast.Call) and is_optimizer_step(part) for part in walk(loop))


def trained_on(loop: ast.AST) -> set[str]:
    """The losses of a loop: ``loss.backward()``."""
    return {
        ast.unparse(call.func.value)
        for call in walk(loop)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
        if not call.args
    }


def shown(node: ast.AST) -> set[str]:
    """Return what an expression makes a text of, or hands to a log that reads it at once."""
    match node:
        case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant()), args=args, keywords=keywords):
            values = [*args, *(keyword.value for keyword in keywords)]
        case ast.FormattedValue(value=value):
            values = [value]
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str()), right=ast.Tuple(elts=values)):
            pass
        case ast.Call(func=ast.Attribute(attr="add_scalar"), args=[_, value, *_]):
            values = [value]
        case ast.Call(func=ast.Attribute(value=ast.Name(id="wandb"), attr="log"), args=[ast.Dict(values=values)]):
            pass
        case ast.Call(func=ast.Attribute(attr="set_postfix"), keywords=keywords):
            values = [keyword.value for keyword in keywords]
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str()), right=value):
            values = [value]
        case _:
            return set()
    return {ast.unparse(value) for value in values}


def shown_by_calls(project: Project, module: ModuleIndex, loop: ast.AST, read: set[str]) -> list[ast.Call]:
    """The calls of a loop whose functions make texts of tensors that it also reads, or of the table that holds them:
    ``text = loss_text(losses)``."""
    tables = {name for name in (_table_of(part, read) for part in walk(loop)) if name} | read
    return [
        call
        for call in walk(loop)
        if isinstance(call, ast.Call) and any(ast.unparse(argument) in tables for argument in call.args)
        if any(_shows_argument(callee, call, tables) for callee in project.fact(Resolver).callees(module, call))
    ]


def _table_of(part: ast.AST, read: set[str]) -> str:
    """The table of ``for name, value in losses.items()`` for a value that is read, and of ``losses["total"]``."""
    match part:
        case ast.For(target=target, iter=ast.Call(func=ast.Attribute(value=table, attr="items" | "values"))):
            named = {one.id for one in walk(target) if isinstance(one, ast.Name)}
            return ast.unparse(table) if named & read else ""
        case ast.Subscript(value=table) if ast.unparse(part) in read:
            return ast.unparse(table)
    return ""


def _shows_argument(callee: NodeRef, call: ast.Call, tables: set[str]) -> bool:
    function = callee.node
    if not isinstance(function, FUNCTIONS) or isinstance(function, ast.Lambda):
        return False
    passed = {name: argument_of(function, call, name) for name in parameters(function)}
    given = {name for name, value in passed.items() if value is not None and ast.unparse(value) in tables}
    texts = (text for part in walk(function) for text in shown(part))
    return bool(given) and any(text.partition("[")[0].partition(".")[0] in given for text in texts)


@query
def _set_in(_module: ModuleIndex, loop: ast.AST) -> frozenset[str]:
    """The variables and attributes that a loop sets."""
    names = (part for part in walk(loop) if isinstance(part, ast.Name | ast.Attribute))
    return frozenset(ast.unparse(part) for part in names if isinstance(part.ctx, ast.Store))


@query
def hidden_waits(project: Project, module: ModuleIndex, loop: ast.AST) -> tuple[tuple[ast.AST, NodeRef], ...]:
    """The calls of a loop whose functions read tensors without gradients in any case, with the reads, and asserts.

    The rule does not report them, as such functions mostly evaluate, and asserts check on purpose. A step that has one
    waits all the same.
    """
    guards, resolver = project.fact(Guards), project.fact(Resolver)
    found = list[tuple[ast.AST, NodeRef]]()
    for call in (part for part in walk(loop) if isinstance(part, ast.Call)):
        if guards.is_periodic(module, call) or guards.is_before_loop_exit(module, call):
            continue
        if guards.is_off_by_default(module, call, loop) or only_evaluates(module, call):
            continue
        for callee in resolver.callees(module, call):
            site = NodeRef(module, call)
            read = next(
                (
                    one
                    for one in _read(project, callee.module).get(callee.node, ())
                    if _waits(project, callee, one, site)
                ),
                None,
            )
            if read is not None:
                found.append((call, NodeRef(callee.module, read.node)))
    asked = (*project.fact(SyncPoints).asserted(module), *value_tests(project, module))
    checks = (check for check in asked if loop in module.syntax.ancestors(check))
    found += ((check, NodeRef(module, check)) for check in checks if not guards.is_periodic(module, check))
    found += ((read.node, read) for read in unknown_reads(project, module, loop) if not _is_seldom(project, read, loop))
    return tuple(found)


def _is_seldom(project: Project, read: NodeRef, loop: ast.AST) -> bool:
    guards = project.fact(Guards)
    return guards.is_periodic(read.module, read.node) or guards.is_off_by_default(read.module, read.node, loop)


def _waits(project: Project, callee: NodeRef, sync: SyncPoint, site: NodeRef) -> bool:
    return not project.fact(SyncPoints).gets_numbers(callee.module, sync, (site,))


@query
def _read(project: Project, module: ModuleIndex) -> dict[ast.AST, list[SyncPoint]]:
    """The reads that functions do in any case while gradients are off, by function."""
    guards, found = project.fact(Guards), dict[ast.AST, list[SyncPoint]]()
    for sync in project.fact(SyncPoints).in_module(module):
        function = module.function(sync.node)
        if function is None or sync.kind is not SyncKind.READ or any(conditions(module, sync.node)):
            continue
        if guards.is_without_gradients(module, sync.node):
            found.setdefault(function, []).append(sync)
    return found


def is_lightning_log(module: ModuleIndex, statement: ast.stmt) -> bool:
    """``self.log("loss", loss.item())`` in a module of Lightning, which takes tensors and reads them when it logs."""
    if module.packages.isdisjoint(_LIGHTNING):
        return False
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="log" | "log_dict"))):
            return owner in ("self", "pl_module")
    return False


def inner_loop(module: ModuleIndex, statement: ast.AST) -> ast.For | None:
    """The loop around a statement in its own function, such as one over parameters."""
    for up in module.syntax.ancestors(statement):
        if isinstance(up, ast.For):
            return up
        if isinstance(up, FUNCTIONS):
            break
    return None


def summing_loop(module: ModuleIndex, statement: ast.AugAssign, inner: ast.For) -> ast.For:
    """The outermost loop around a sum in its own function that neither starts it anew nor reads it: each image adds to
    what each of its classes adds to."""
    assert isinstance(statement.target, ast.Name)
    name, found = statement.target.id, inner
    for up in module.syntax.ancestors(inner):
        if not isinstance(up, ast.For):
            if isinstance(up, (*FUNCTIONS, ast.While)):
                break
            continue
        uses = [part for part in walk(up) if isinstance(part, ast.Name) and part.id == name]
        if any(not isinstance(module.syntax.parents.get(use), ast.AugAssign) for use in uses):
            break
        found = up
    return found
