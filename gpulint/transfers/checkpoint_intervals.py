"""After how many steps a program writes its checkpoints, and after how many they would cost the least.

The interval with the least expected loss of time is ``sqrt(2 * time of a checkpoint * mean time between failures)``:
Young, A first order approximation to the optimum checkpoint interval, CACM 1974; Daly, A higher order estimate of the
optimum checkpoint interval for restart dumps, FGCS 2006.
"""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.records import dataclass
from gpulint.semantic.path_conditions import conditions
from gpulint.training.loop_contexts import LoopContext
from gpulint.training.loop_roles import Role
from gpulint.transfers.checkpoints import Save
from gpulint.values.arguments import Arguments, ArgumentState
from gpulint.values.constants import Constants, Value
from gpulint.values.counter_names import counts_epochs, is_counter
from gpulint.values.tests_elsewhere import named_test
from gpulint.workspace.module_index import LOOPS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_LEAST = 2
"""A longer interval is worth a word from so many times the stated one on; near the best one the loss hardly changes."""
_FEW_CHECKPOINTS = 10
"""The rule is for checkpoints that take a small part of the time between two failures: at most one in so many."""
_SMALL = 0.05
"""A share of the time that is not worth a word once the interval is the best one (assumed)."""
_OF_CALLBACKS = ("every_n_train_steps", "save_freq")
"""Parameters of the callbacks of Lightning and Keras."""


@dataclass(frozen=True, slots=True)
class Times:
    """Measured times of a program, in seconds."""

    between_failures: float
    checkpoint: float
    step: float

    def share(self, steps: int) -> float:
        """Return how much of the time is lost to checkpoints that are written every so many steps."""
        return self.checkpoint / (self.checkpoint + steps * self.step)

    @property
    def best(self) -> float:
        """The steps between two checkpoints with which the least time is lost; 0 if the rule does not apply."""
        if self.checkpoint * _FEW_CHECKPOINTS > self.between_failures:
            return 0
        return math.sqrt(2 * self.checkpoint * self.between_failures) / self.step

    def is_small(self, steps: int) -> bool:
        """Return whether little is lost to checkpoints that are written every so many steps."""
        return self.best > 0 and self.share(steps) < _SMALL


@dataclass(frozen=True, slots=True)
class StatedInterval:
    """The steps between two checkpoints. ``number`` is the expression that holds them, None for a default of the
    framework; ``value`` says where the number is written."""

    steps: int
    name: str = ""
    """The parameter, of settings and callbacks."""
    number: NodeRef | None = None
    value: Value | None = None
    counter: ast.expr | None = None
    """What counts the steps, of a test in the code."""
    run: int | None = None
    """The steps of the whole run, if they are known."""


@dataclass(frozen=True, slots=True)
class TimedInterval:
    """The steps between two checkpoints, and what is known of both."""

    times: Times
    stated: StatedInterval

    @property
    def longer(self) -> int | None:
        """The multiple of the interval that costs the least, in a run with two checkpoints at least; None if the
        interval itself is about as good.

        A multiple still falls on steps in which the program does other things as well, such as an evaluation.
        """
        steps, run = self.stated.steps, self.stated.run
        times = int(min(self.times.best, run / 2 if run is not None else math.inf) / steps)
        return times * steps if times >= _LEAST else None

    @property
    def is_good(self) -> bool:
        """Whether the interval is about the best one, with which little is lost."""
        return self.longer is None and self.times.is_small(self.stated.steps)


def timed_interval(
    project: Project, at: NodeRef, save: Save, contexts: Sequence[LoopContext], default: int
) -> TimedInterval | None:
    """Return the interval of a checkpoint if the code states it, and the settings the times of the program;
    ``default`` is that of a framework's settings."""
    times = _times_of(project, at.module.path)
    stated = _stated_interval(project, at, save, contexts, default) if times is not None else None
    return TimedInterval(times, stated) if times is not None and stated is not None else None


def interval_of_callback(project: Project, save: Save) -> int | None:
    """Return after how many steps a callback writes, where it says so by one number."""
    stated = _of_settings(project, save, 0) if save.is_callback and save.interval is None else None
    return stated.steps if stated is not None else None


def _times_of(project: Project, path: Path) -> Times | None:
    """The times that the settings have for a program."""
    config = project.config
    if not config.checkpoint_times or not path.is_relative_to(config.base):
        return None
    from gpulint.patterns import compiled

    relative = path.relative_to(config.base).as_posix()
    found = [times for pattern, times in config.checkpoint_times.items() if compiled((pattern,)).match_file(relative)]
    if not found:
        return None
    hours, checkpoint, step = found[-1].values()
    return Times(hours * 3600, checkpoint, step)


def _stated_interval(
    project: Project, at: NodeRef, save: Save, contexts: Sequence[LoopContext], default: int
) -> StatedInterval | None:
    """Return after how many steps a checkpoint is written, where one number says so."""
    if save.is_callback:
        return _of_settings(project, save, default)
    if not any(context.role is Role.STEP for context in contexts):
        return None
    sites = [at, save.call, *(site for context in contexts for site in context.calls)]
    found = {
        id(rest): (site.module, rest)
        for site in sites
        for test, holds in conditions(site.module, site.node)
        for rest in _remainders(site.module, test, holds)
        if is_counter(_counter(rest))
    }
    if len(found) != 1:
        return None
    ((module, rest),) = found.values()
    if counts_epochs(last_name(_counter(rest))):
        return None
    run = min((most for context in contexts if (most := _rounds(project, context, _counter(rest)))), default=None)
    return _stated(project, NodeRef(module, rest.right), StatedInterval(0, counter=_counter(rest), run=run))


def _of_settings(project: Project, save: Save, default: int) -> StatedInterval | None:
    """``save_steps=500`` of settings that save by steps, ``every_n_train_steps=500`` or ``save_freq=500`` of a
    callback."""
    arguments, module, call = project.fact(Arguments), save.call.module, save.node
    of_callback = next((one for one in _OF_CALLBACKS if not arguments.of(module, call, one).is_absent), "")
    strategy, name = save.interval or ("", of_callback)
    if not name:
        return None
    by_steps = arguments.value(module, call, strategy).every(lambda value: value == "steps")
    if strategy and not by_steps and not arguments.of(module, call, strategy).is_absent:
        return None
    most = [one for one in arguments.value(module, call, "max_steps").constants if isinstance(one, int) and one > 0]
    run = min(most, default=None)
    given = arguments.of(module, call, name)
    if given.is_absent:
        return StatedInterval(default, name, run=run) if strategy else None
    if given.passed is not ArgumentState.ALWAYS or given.unknown or len(given.refs) != 1:
        return None
    return _stated(project, given.refs[0], StatedInterval(0, name, run=run))


def _stated(project: Project, number: NodeRef, of: StatedInterval) -> StatedInterval | None:
    """Return an interval with the number that an expression has."""
    known = project.fact(Constants).of(number.module, number.node)
    if not known.complete or len(known.values) != 1:
        return None
    (value,) = known.values
    if type(value.value) is not int or value.value < 1:
        return None
    return dataclasses.replace(of, steps=value.value, number=number, value=value)


def _rounds(project: Project, context: LoopContext, counter: ast.expr) -> int | None:
    """Return how many steps ``for step in range(5000)`` has, which is in no other loop, if ``step`` counts them."""
    match context.loop.node:
        case ast.For(target=target, iter=ast.Call(func=ast.Name(id="range"), args=[*_, end])) as loop if ast.unparse(
            target
        ) == ast.unparse(counter) and not any(
            isinstance(up, LOOPS) for up in context.loop.module.syntax.ancestors(loop)
        ):
            known = project.fact(Constants).of(context.loop.module, end).constants
            return min((one for one in known if isinstance(one, int) and one > 0), default=None)
    return None


def _remainders(module: ModuleIndex, test: ast.expr, holds: bool) -> Iterator[ast.BinOp]:
    """Yield the remainders that are a certain number where a test holds: ``step % 500 == 0``, ``not step % 500``."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield from _remainders(module, inner, not holds)
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from _remainders(module, part, holds)
        case ast.Name() if (named := named_test(module, test)) is not None:
            yield from _remainders(module, named, holds)
        case ast.Compare(left=ast.BinOp(op=ast.Mod()) as rest, ops=[ast.Eq() | ast.NotEq() as operator]):
            if holds is isinstance(operator, ast.Eq):
                yield rest
        case ast.BinOp(op=ast.Mod()) if not holds:
            yield test


def _counter(rest: ast.BinOp) -> ast.expr:
    """``step`` of ``(step + 1) % 500``."""
    left = rest.left
    return left.left if isinstance(left, ast.BinOp) and isinstance(left.right, ast.Constant) else left
