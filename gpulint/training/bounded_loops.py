"""Loops that look at a few batches instead of passing over the data: samples to listen to, one batch to draw."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.training.argument_exits import is_left_in_each_step
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.training.loop_roles import Role
from gpulint.training.single_rounds import ends_at_once
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

FEW = 16
"""Most batches that are looked at; a loop that stops later is a pass, if a short one."""
_EXITS: tuple[type[ast.stmt], ...] = (ast.Break, ast.Return)


def reads_few_batches(project: Project, where: NodeRef) -> bool:
    """Return whether a loop over batches stops after the first (``break`` at its end, or ``return`` where no training
    loop is around it) or, other than for training, after a known small number (``if i >= samples: break``,
    ``islice(loader, 4)``)."""
    loop = where.node
    if not isinstance(loop, ast.For | ast.AsyncFor):
        return False
    if isinstance(loop.body[-1], ast.Break) or (ends_at_once(loop) and not _is_run_again(project, where)):
        return True
    limits = (*_limits(where.module, loop), *_slices(loop.iter))
    return (
        any(
            project.fact(Constants).of(where.module, limit).every(lambda value: isinstance(value, int) and value <= FEW)
            for limit in limits
        )
        and project.fact(LoopContexts).role(where.module, loop) is not Role.STEP
    )


def _is_run_again(project: Project, where: NodeRef) -> bool:
    """Return whether the steps or the epochs of a training run a loop again, and take a batch from it each time."""
    around = project.fact(LoopContexts).enclosing_loops(where.module, where.node)
    return any(context.role in (Role.STEP, Role.EPOCH) for context in around)


def _slices(source: ast.expr) -> Iterator[ast.expr]:
    """Yield how many batches ``enumerate(islice(loader, n))`` takes."""
    while isinstance(source, ast.Call) and source.args:
        if last_name(source.func) == "islice" and len(source.args) == 2:
            yield source.args[1]
        source = source.args[0]


def stops_within(project: Project, where: NodeRef, most: int) -> bool:
    """Return whether a loop stops after a known number of rounds: ``range(n)``, ``zip(range(n), loader)``,
    ``islice(loader, n)``, or ``if step >= n: break``."""
    loop = where.node
    if not isinstance(loop, ast.For | ast.AsyncFor):
        return False
    limits = (*_limits(where.module, loop), *_slices(loop.iter), *_ranges(loop.iter))
    return any(
        project.fact(Constants).of(where.module, limit).every(lambda value: isinstance(value, int) and value <= most)
        for limit in limits
    )


def lasts_for(project: Project, where: NodeRef, least: int) -> bool:
    """Return whether a loop takes at least a known number of rounds (``range(n)``), and nothing ends it sooner."""
    loop = where.node
    if not isinstance(loop, ast.For) or any(isinstance(part, ast.Break | ast.Return) for part in walk(loop)):
        return False
    return any(
        project.fact(Constants).of(where.module, count).every(lambda value: isinstance(value, int) and value >= least)
        for count in _ranges(unwrap_iterable(loop.iter))
    )


def most_counted(project: Project, where: NodeRef) -> int:
    """Return after how many rounds a loop ends at most, by its count or by that of all steps (``if step >= max_steps:
    break``), the largest known value of the limit; 0 if that is unknown."""
    loop, found = where.node, list[int]()
    if not isinstance(loop, ast.For | ast.AsyncFor):
        return 0
    for limit in _limits(where.module, loop, _EXITS, True):
        known = project.fact(Constants).of(where.module, limit)
        numbers = [value for value in known.constants if isinstance(value, int) and value > 0]
        if known.complete and numbers and len(numbers) == len(known.values):
            found.append(max(numbers))
    return min(found, default=0)


def _ranges(source: ast.expr) -> Iterator[ast.expr]:
    match source:
        case ast.Call(func=ast.Name(id="range" | "trange"), args=[count]):
            yield count
        case ast.Call(func=ast.Name(id="zip" | "enumerate"), args=parts):
            for part in parts:
                yield from _ranges(part)


def is_restarted(project: Project, where: NodeRef) -> bool:
    """Return whether a loop over batches is run again by each round of a loop around it, other than an epoch, and stops
    after a known small number of batches, or by each call of its function in a training, for one batch, also where an
    argument of the call says so: each round starts the loader anew."""
    loop = where.node
    if not isinstance(loop, ast.For | ast.AsyncFor):
        return False
    around = next((up for up in where.module.syntax.ancestors(loop) if isinstance(up, (*LOOPS, *FUNCTIONS))), None)
    if not isinstance(around, LOOPS):
        return (ends_at_once(loop) and _is_run_again(project, where)) or is_left_in_each_step(project, where, FEW)
    if isinstance(loop.body[-1], ast.Break):
        return True
    return any(
        project.fact(Constants).of(where.module, limit).every(lambda value: isinstance(value, int) and value <= FEW)
        for limit in _limits(where.module, loop, (ast.Break,))
    )


def is_left_at_once(project: Project, where: NodeRef) -> bool:
    """Return whether a constant of the program ends a loop in its first round (``if DEBUG: break``)."""
    loop = where.node
    for statement in loop.body if isinstance(loop, ast.For | ast.AsyncFor) else ():
        match statement:
            case ast.If(test=ast.Name() | ast.Attribute() as test, body=[*_, ast.Break() | ast.Return()]):
                known = project.fact(Constants).of(where.module, test)
                if known.every(lambda value: value is True) and all(one.source == "literal" for one in known.values):
                    return True
    return False


@query
def _limits(
    module: ModuleIndex,
    loop: ast.For | ast.AsyncFor,
    exits: tuple[type[ast.stmt], ...] = _EXITS,
    resumed: bool = False,
) -> tuple[ast.expr, ...]:
    """Return what the count of a loop is compared with in each ``if ...: break`` right in its body, or ``return``; also
    one that may go on from a checkpoint if it may be ``resumed``."""
    tests = (
        statement.test
        for statement in loop.body
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], exits)
    )
    found = (_limit(loop, test) or _counted_limit(module, loop, test, resumed) for test in tests)
    return tuple(limit for limit in found if limit is not None)


def _counted_limit(module: ModuleIndex, loop: ast.For | ast.AsyncFor, test: ast.expr, resumed: bool) -> ast.expr | None:
    """Return what a count is compared with that the loop keeps by hand: ``shown = 0``, then ``shown += 1`` in it."""
    match test:
        case ast.Compare(left=ast.Name(id=name) as count, ops=[ast.Gt() | ast.GtE() | ast.Eq()], comparators=[limit]):
            bindings = module.scope(count).lookup(name)
        case _:
            return None
    inside = [one.node for one in bindings if loop in module.syntax.ancestors(one.node)]
    before = [one.value for one in bindings if one.node not in inside]
    starts = (any if resumed else all)(isinstance(value, ast.Constant) and value.value == 0 for value in before)
    counts = all(isinstance(node, ast.AugAssign) and ast.unparse(node).endswith(" += 1") for node in inside)
    return limit if before and inside and starts and counts else None


def _limit(loop: ast.For | ast.AsyncFor, test: ast.expr) -> ast.expr | None:
    """Return what the count of an ``enumerate`` is compared with (``n`` of ``i == n - 1``)."""
    if not (isinstance(loop.target, ast.Tuple) and isinstance(loop.iter, ast.Call) and isinstance(test, ast.Compare)):
        return None
    count = loop.target.elts[0]
    if last_name(loop.iter.func) != "enumerate" or ast.unparse(test.left) != ast.unparse(count):
        return None
    limit = test.comparators[0]
    if (
        isinstance(limit, ast.BinOp)
        and isinstance(limit.op, ast.Add | ast.Sub)
        and isinstance(limit.right, ast.Constant)
    ):
        limit = limit.left
    return limit if isinstance(test.ops[0], ast.Gt | ast.GtE | ast.Eq) else None
