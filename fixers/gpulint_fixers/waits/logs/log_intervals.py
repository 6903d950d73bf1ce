"""Logging every N steps: the condition under which statements that only log should run, and the edits."""

from __future__ import annotations

import ast
from itertools import chain

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.semantic.path_conditions import conditions, nested_exits
from gpulint.training.guards import Guards
from gpulint.values.constants import Constants
from gpulint.values.periodic_tests import is_periodic
from gpulint.workspace.module_index import LoopNode, ModuleIndex, last_name
from gpulint_fixers.edits.numbers import replace_number
from gpulint_fixers.waits.logs.epoch_lengths import is_single_run, may_be_short, most_rounds
from gpulint_fixers.waits.logs.final_steps import is_number_of, last_step
from gpulint_fixers.waits.logs.logging_runs import is_logging
from gpulint_fixers.waits.logs.named_intervals import (
    FEW,
    Named,
    is_of_accumulation,
    is_of_epochs,
    is_of_others,
    named_interval,
)
from gpulint_fixers.waits.logs.scaler_waits import scaler_above
from gpulint_fixers.waits.logs.step_counters import counter_at, incremented, set_in, stores
from gpulint_fixers.waits.logs.step_numbers import running, starts_anew

EVERY = 50
"""Steps between two lines of a log, where the program has no interval of its own."""
_SHORTER = (EVERY, 20, 10, 5)
"""Steps between two lines of a log where the loop has few rounds: at most half of them."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The condition for logging, and the edits that it needs elsewhere."""

    test: str
    edits: tuple[Edit, ...] = ()
    every: str = str(EVERY)
    loop: LoopNode | None = None
    """The loop, where the interval is not the program's own."""
    last: str = ""
    """The condition for the loop's last step, where that is known."""


def interval(project: Project, module: ModuleIndex, loop: LoopNode, at: ast.stmt) -> Interval | Declined:
    """Return when statements of a loop should log: as others of the loop do, else every :data:`EVERY` steps."""
    if periodic(module, loop, at) is not None:
        return Declined("it is logged every N steps already, with an N that is too small; raise it")
    counter, edits = counter_at(module, loop, at)
    named = named_interval(project, module, loop)
    if (own := _own_test(project, module, loop, at, isinstance(named, Named))) is not None:
        return own
    if counter is None:
        return Declined("the loop has no step number by which it could log every N steps")
    if (line := scaler_above(project, module, loop, at)) is not None:
        return Declined(f"the scaler of gradients waits in line {line}, right before the value is read")
    if isinstance(named, Declined):
        return named
    if named is not None:
        return Interval(f"{counter} % {named.text} == 0", edits, named.text)
    anew = starts_anew(module, loop, counter)
    if counter != running(module, loop) and may_be_short(project, module, loop):
        return Declined(f"with such large batches an epoch may have fewer than {EVERY} steps, the log interval")
    rounds = 0 if counter == running(module, loop) else most_rounds(project, module, loop)
    every = next((number for number in _SHORTER if not rounds or 2 * number <= rounds), None)
    if every is None:
        return Declined(f"the loop has {rounds} rounds, too few for a log interval")
    if 0 < rounds <= EVERY and is_single_run(project, module, loop):
        return Declined(f"the whole run has {rounds} steps, of which each shows its result")
    first = int(counter == incremented(module, at) and anew)
    last = last_step(project, module, loop, counter, first) if first or is_number_of(loop, counter, edits) else ""
    return Interval(f"{counter} % {every} == {first}", edits, str(every), loop, last)


def is_short(loop: LoopNode) -> bool:
    """``for step in range(10)``: too few rounds to log every :data:`EVERY` steps."""
    match loop:
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int() as rounds)])):
            return rounds <= EVERY
    return False


def periodic(module: ModuleIndex, loop: LoopNode, at: ast.stmt) -> ast.expr | None:
    """The N of a condition ``step % N == 0`` around a statement of a loop, under which it does nothing but log."""
    for up in module.syntax.ancestors(at):
        if up is loop:
            break
        if not isinstance(up, ast.If) or not all(is_logging(one) or isinstance(one, ast.Assign) for one in up.body):
            continue
        for part in walk(up.test):
            match part:
                case ast.Compare(left=ast.BinOp(left=counter, op=ast.Mod(), right=every), ops=[ast.Eq()]):
                    if {ast.unparse(name) for name in walk(counter) if isinstance(name, ast.expr)} & set_in(loop):
                        return every
    return None


def raised(project: Project, module: ModuleIndex, every: ast.expr) -> tuple[Edit, ...] | None:
    """Edits that set the interval of a log to :data:`EVERY` where it is set; None if it is set nowhere, is large, or
    counts epochs elsewhere."""
    if is_of_epochs(project, last_name(every)):
        return None
    values = project.fact(Constants).of(module, every).values
    places = {value.place for value in values}
    if len(places) != 1 or values[0].value not in range(1, FEW):
        return None
    return replace_number(project, places.pop(), int(str(values[0].value)), str(EVERY))


def _own_test(project: Project, module: ModuleIndex, loop: LoopNode, at: ast.stmt, named: bool) -> Interval | None:
    """``step % args.log_interval == 0``, if that is a condition of the same block, and about logging: where the log has
    an interval of its own (``named``), that of an evaluation is another."""
    place, parent = module.syntax.place(at), module.syntax.parents.get(at)
    if place is None or parent is None:
        return None
    for statement in getattr(parent, place[0]):
        if not isinstance(statement, ast.If) or statement.orelse or not any(map(is_logging, statement.body)):
            continue
        both = isinstance(statement.test, ast.BoolOp) and isinstance(statement.test.op, ast.And)
        for test in statement.test.values if isinstance(statement.test, ast.BoolOp) and both else [statement.test]:
            match test:
                case ast.Compare(
                    left=ast.BinOp(
                        left=ast.Name() | ast.Attribute() as counter,
                        op=ast.Mod(),
                        right=ast.Constant() | ast.Name() | ast.Attribute() | ast.Subscript() as every,
                    ),
                    ops=[ast.Eq()],
                    comparators=[ast.Constant(value=0)],
                ) if ast.unparse(counter) in set_in(loop):
                    if statement.lineno < at.lineno and not _same_value(loop, ast.unparse(counter), statement, at):
                        continue
                    if isinstance(every, ast.Constant) and not (isinstance(every.value, int) and every.value >= FEW):
                        continue
                    name = "" if isinstance(every, ast.Constant) else ast.unparse(every).rpartition(".")[2]
                    if is_of_accumulation(name) or (named and is_of_others(name)):
                        continue
                    return Interval(module.syntax.text(test), (), ast.unparse(every))
    return None


def _same_value(loop: LoopNode, name: str, one: ast.stmt, other: ast.stmt) -> bool:
    """Return whether nothing between two statements sets the counter."""
    low, high = sorted((one.lineno, other.lineno))
    return not any(low < node.lineno < high for node in stores(loop) if ast.unparse(node) == name)


def logged_seldom(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place of a loop is reached every N steps only, or on the way out."""
    return is_seldom(project, module, node) or project.fact(Guards).is_before_loop_exit(module, node)


def is_seldom(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place is reached every N steps only. A test that ends the program, and that is itself made every
    N steps (``if step % 50 == 0 and isnan(loss): exit()``), lets most of them go on."""
    for test, holds in chain(conditions(module, node), nested_exits(module, node)):
        both = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) and not holds
        parts: list[ast.expr] = test.values if both else [test]  # type: ignore[attr-defined]
        if all(is_periodic(project, module, part, holds) for part in parts):
            return True
    return False
