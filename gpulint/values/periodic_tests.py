"""Tests that hold only every so many iterations: ``step % 10 == 0``, ``logger.should_log()``, ``step == 0``."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, TypeGuard

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import cyclic
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.values.chances import is_by_chance
from gpulint.values.constants import Constants, ConstantSet
from gpulint.values.counter_names import counts_steps_of_epoch, is_counter
from gpulint.values.first_rounds import counts_to_few, is_among_first
from gpulint.values.late_rounds import is_among_last
from gpulint.values.listed_counts import is_at_listed
from gpulint.values.moving_thresholds import passes_mark, waits_for_clock
from gpulint.values.option_tests import asked_options
from gpulint.values.records import sets_record
from gpulint.values.remainders import called_divisor, holds_mostly, is_power_of_two, named_divisor, passes_multiple
from gpulint.values.tests_elsewhere import kept_tests, named_test, passed_tests, properties
from gpulint.workspace.module_index import (
    FUNCTIONS,
    BindingKind,
    FunctionNode,
    ModuleIndex,
    NodeRef,
    last_name,
    source_text,
)

if TYPE_CHECKING:
    from gpulint.project import Project

_STAND_IN = regex.compile(r"(^|[_.-])(smoke|debug|tiny|dummy|test|toy)([_.-]|$)", re.IGNORECASE)
"""Names of configurations that no real run uses."""
_EVERY = regex.compile(
    r"(^|_)(every|interval|freq|frequency|period|steps_per|n_steps|log_steps|logging_steps|save_steps)(_|$)"
    r"|_(every|freq|interval|steps)$"
)
_AMOUNT = regex.compile(
    r"^(max|total|num|global|warmup|train|training|completed|current|start|resumed?|skipp(ed|ing)|done)_(\w+_)?steps$"
)
"""Names of how many steps there are, or have been; ``step > max_train_steps`` ends a loop."""
_LAST = regex.compile(
    r"\b(last|final|done|finished|best|is_(best|(last|final)_\w+)|patience|stop|early_stop\w*|improved|accept\w*)\b",
    re.IGNORECASE,
)
_ENDS = regex.compile(r"^(n|num|max|total)_\w+$|(^|_)(epochs|steps|iters|iterations)$|^len$")
"""Names of how many rounds there are."""
_DUE = regex.compile(
    r"^(should|needs?|time_to|is_time_to)_\w*(log|print|display|show|report|record|plot|save|eval|valid|test)"
)
_FLAG = regex.compile(r"(^|_)(do|eval|evaluate|log|save|plot|show|sample|print|vis|visualize|report)(_|$)")
_NO_INTERVAL: tuple[int, str] | None = None


@cyclic(False)
def is_periodic(project: Project, module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    """Return whether a test holds (or fails) only every N iterations, or only in the first or last, N not being one."""
    if is_by_chance(project, module, test, holds):
        return True
    for part in walk(test):
        divisor = part.right if _is_rest(part) else called_divisor(part)
        divisor = named_divisor(module, part) if isinstance(part, ast.Name | ast.Attribute) else divisor
        if divisor is not None:
            if _is_seldom(module, part, test, holds, project.fact(Constants).of(module, divisor)):
                return True
        elif (
            waits_for_clock(part, holds)
            or _is_due(project, module, part, holds)
            or _passes_multiple(module, part, test, holds)
        ):
            return True
        elif isinstance(part, ast.Name) and (named := named_test(module, part)) is not None:
            if is_periodic(project, module, named, holds):
                return True
        elif isinstance(part, ast.Name) and (passed := passed_tests(project, module, part)):
            if holds and all(is_periodic(project, where, one, holds) for where, one in passed):
                return True
        elif isinstance(part, ast.Name) and _FLAG.search(part.id) and holds is not _is_negated(module, part):
            if _is_set_seldom(project, module, part):
                return True
        elif (
            isinstance(part, ast.Name | ast.Attribute)
            and _EVERY.search(last_name(part))
            and not _AMOUNT.match(last_name(part))
            and not counts_steps_of_epoch(last_name(part))
            and part not in asked_options(module, test)
            and not _counts_up(module, part)
            and not _is_divisor(module, part)
            and (holds or not _ends_loop(module, test))
        ):
            if not _is_always_one(project.fact(Constants).of(module, part)):
                return True
        elif isinstance(part, ast.Compare) and is_at_listed(module, part, holds):
            return True  # `step == 0`, `step == len(loader) - 1`, `step in milestones`: at few steps
        elif isinstance(part, ast.Compare) and holds and (is_among_first(module, part) or sets_record(module, part)):
            return True  # `step < 3`: the first of a training are drawn; `score > best`, where `best = score` follows
        elif isinstance(part, ast.Compare) and counts_to_few(project, module, part, holds):
            return True  # `if self.shown >= 4: return`
        elif isinstance(part, ast.Compare) and (passes_mark(module, test, part, holds) or is_power_of_two(part, holds)):
            return True  # `if images < last_images + interval: continue`
        elif isinstance(part, ast.Compare) and holds and is_counter(part.left) and is_among_last(module, part):
            return True  # `step >= steps - steps_per_epoch`: the last epoch
        elif holds and (made := _seldom_made(module, part)) is not None and _is_made_seldom(project, module, made):
            return True  # `metrics is not None`, of a function that returns some every N steps
    return bool(holds and _LAST.search(source_text(module, test)))


@cyclic(_NO_INTERVAL)
def interval(
    project: Project, module: ModuleIndex, test: ast.expr, holds: bool, sure: bool = False
) -> tuple[int, str] | None:
    """(500, "step") for ``step % 500 == 0``, where every known value of the number is at least that, those of smoke
    tests aside; None if the test also holds (or fails) at other times. ``sure`` leaves out numbers of which only some
    values are known."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return interval(project, module, inner, not holds, sure)
        case ast.BoolOp(op=operator, values=parts):
            ends = [part for part in parts if holds and isinstance(operator, ast.Or) and _is_end(part)]
            found = [interval(project, module, part, holds, sure) for part in parts if part not in ends]
            known = [one for one in found if one is not None]
            if isinstance(operator, ast.And) is holds:
                return max(known, default=None)
            return min(known) if known and len(known) == len(found) else None
        case ast.Name() if (named := named_test(module, test)) is not None:
            return interval(project, module, named, holds, sure)
        case ast.Name() if passed := passed_tests(project, module, test):
            each = [interval(project, where, one, holds, sure) for where, one in passed]
            return min(one for one in each if one is not None) if None not in each else None
        case ast.Compare(left=ast.BinOp(op=ast.Sub(), left=now), ops=[ast.GtE() | ast.Gt()], comparators=[least]):
            # ``epoch - last >= 10``
            return _least(project, module, least, ast.unparse(now), sure) if holds and is_counter(now) else None
        case ast.Compare(left=rest, ops=[ast.Eq() | ast.NotEq() as operator]):
            holds = holds is isinstance(operator, ast.Eq)
        case _:
            rest, holds = test, not holds
    if not holds or not _is_rest(rest):
        return None
    return _least(project, module, rest.right, ast.unparse(rest.left), sure)


def _is_end(test: ast.expr) -> bool:
    """``epoch + 1 == args.epochs``, which holds once."""
    match test:
        case ast.Compare(left=now, ops=[ast.Eq()], comparators=[end]):
            sides = [
                side.left if isinstance(side, ast.BinOp) and isinstance(side.right, ast.Constant) else side
                for side in (now, end)
            ]
            return any(is_counter(one) and _ENDS.search(last_name(other)) for one, other in (sides, sides[::-1]))
    return False


def _least(project: Project, module: ModuleIndex, node: ast.expr, counted: str, sure: bool) -> tuple[int, str] | None:
    """The smallest known value of a period, with what counts it. If ``sure``, all its values have to be known; of those
    of several files, which start different runs, the largest counts."""
    period = project.fact(Constants).of(module, node)
    if sure and not period.complete:
        return None
    values = period.values
    whole = [(one.value, one.place.path) for one in values if isinstance(one.value, int) and one.value > 0]
    real = [number for number, path in whole if not _STAND_IN.search(path.stem)] or [number for number, _ in whole]
    several = sure and len({path for _, path in whole}) > 1
    return (max(real) if several else min(real), counted) if real else None


def _counts_up(module: ModuleIndex, node: ast.Name | ast.Attribute) -> bool:
    """Return whether a name is increased somewhere (``n_steps += 1``) and not set anew where the test holds: it counts
    the steps, and is no interval."""
    if isinstance(node, ast.Name):
        bindings = module.scope(node).lookup(node.id)
    else:
        owner = module.class_of(node) if last_name(node.value) == "self" else None
        bindings = module.attributes.get((owner, node.attr), []) if owner is not None else []
    around = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)
    resets = {id(part) for part in walk(around)} if isinstance(around, ast.If) else set[int]()
    return any(binding.kind is BindingKind.AUGMENT for binding in bindings) and not any(
        binding.kind is BindingKind.ASSIGN and id(binding.node) in resets for binding in bindings
    )


def _is_always_one(period: ConstantSet) -> bool:
    """Return whether the program itself makes a period one. A command that asks for every step (``--log-interval=1``)
    wants to see them, and no change of the code is due."""
    return period.every(lambda value: value == 1) and all(value.source != "launcher" for value in period.values)


def _is_seldom(module: ModuleIndex, rest: ast.AST, test: ast.expr, holds: bool, period: ConstantSet) -> bool:
    mostly = holds_mostly(module, rest, test, holds) and not period.every(lambda value: value == 2)
    return not mostly and not _is_always_one(period)


def _is_rest(node: ast.AST) -> TypeGuard[ast.BinOp]:
    """``step % 100``."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)


def _is_divisor(module: ModuleIndex, part: ast.AST) -> bool:
    up = module.syntax.parents.get(part)
    return up is not None and _is_rest(up) and up.right is part


def _ends_loop(module: ModuleIndex, test: ast.expr) -> bool:
    """``if step // accumulation_steps == limit: break``: all rounds before the last one pass by."""
    exit_ = module.syntax.parents.get(test)
    return isinstance(exit_, ast.If) and exit_.test is test and isinstance(exit_.body[-1], ast.Break)


def _passes_multiple(module: ModuleIndex, node: ast.AST, test: ast.expr, holds: bool) -> bool:
    return (
        passes_multiple(node)
        and any(is_counter(one) for one in walk(node) if isinstance(one, ast.Name | ast.Attribute))
        and not (isinstance(node, ast.BinOp) and holds_mostly(module, node, test, holds))
    )


def _is_due(project: Project, module: ModuleIndex, part: ast.AST, holds: bool) -> bool:
    holds = holds is not _is_negated(module, part)
    if isinstance(part, ast.Attribute):
        if _is_kept_seldom(project, kept_tests(project, module, part), holds):
            return True
        return any(_says_when(project, module, one, None, holds) for one in properties(project, module, part))
    if not isinstance(part, ast.Call):
        return False
    if _EVERY.search(name := last_name(part.func)) or _DUE.search(name):
        return True
    return any(_says_when(project, module, one, part, holds) for one in project.fact(Resolver).callees(module, part))


def _is_kept_seldom(project: Project, kept: list[tuple[ModuleIndex, ast.expr]], holds: bool) -> bool:
    """``self.due = step % 100 == 0``, perhaps with ``self.due = True`` under such a condition."""
    return bool(kept) and all(
        any(is_periodic(project, where, test, on) for test, on in conditions(where, value))
        or (isinstance(value, ast.Constant) and bool(value.value) is not holds)
        or (isinstance(value, ast.Compare | ast.BoolOp) and is_periodic(project, where, value, holds))
        for where, value in kept
    )


def _is_negated(module: ModuleIndex, part: ast.AST) -> bool:
    up = module.syntax.parents.get(part)
    return isinstance(up, ast.UnaryOp) and isinstance(up.op, ast.Not)


def _says_when(project: Project, module: ModuleIndex, callee: NodeRef, call: ast.Call | None, holds: bool) -> bool:
    """``counter.shows()`` of the tree, which returns ``self.steps % self.every == 0``; ``divisible(step, 100)``; a
    function that returns ``True`` under such a condition alone. ``call`` is None for a property."""
    function = callee.node
    if not isinstance(function, FUNCTIONS):
        return False
    if _returns_true_seldom(project, callee.module, function):
        return True
    last = function.body[-1]
    if not isinstance(last, ast.Return) or last.value is None or not all(map(_is_plain, function.body[:-1])):
        return False
    rests = [part.right for part in walk(last.value) if _is_rest(part) and isinstance(part.right, ast.Name)]
    for given in (argument_of(function, call, rest.id) for rest in rests if call is not None):
        if given is None or not _is_always_one(project.fact(Constants).of(module, given)):
            return True
    return not (rests and call is not None) and _returns_periodic(project, callee.module, function, holds)


def _is_plain(statement: ast.stmt) -> bool:
    """A docstring, or an assignment (``self.calls += 1``)."""
    return isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign)


@cyclic(False)
def _returns_periodic(project: Project, module: ModuleIndex, function: FunctionNode, holds: bool) -> bool:
    returned = project.fact(Resolver).returns(function)
    return bool(returned) and all(is_periodic(project, module, value, holds) for value in returned)


@cyclic(False)
def _returns_true_seldom(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    """``if step >= self.due: self.due += 100; return True``, and ``return False`` otherwise."""
    returned = [one for one in project.fact(Resolver).returns(function) if not _is_no(one)]
    return bool(returned) and all(
        isinstance(one, ast.Constant)
        and any(is_periodic(project, module, test, holds) for test, holds in conditions(module, one))
        for one in returned
    )


def _is_no(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value


def _is_set_seldom(project: Project, module: ModuleIndex, flag: ast.Name, passed: bool = True) -> bool:
    """A flag that is true where ``if step % 100 == 0: flag = True`` set it, also in all callers that pass it on."""
    bindings = module.scope(flag).lookup(flag.id)
    if passed and len(bindings) == 1 and bindings[0].kind is BindingKind.PARAMETER:
        function = bindings[0].scope.node
        sites = project.fact(Resolver).first_sites(module, function) if isinstance(function, FUNCTIONS) else ()
        handed = [
            argument_of(function, site.node, flag.id)
            for site in sites
            if isinstance(function, FUNCTIONS) and isinstance(site.node, ast.Call)
        ]
        return bool(handed) and all(
            isinstance(argument, ast.Name) and _is_set_seldom(project, site.module, argument, False)
            for site, argument in zip(sites, handed, strict=True)
        )
    constants = [getattr(binding.value, "value", None) for binding in bindings]
    return set(constants) == {True, False} and all(
        value is False or any(is_periodic(project, module, test, holds) for test, holds in conditions(module, one.node))
        for value, one in zip(constants, bindings, strict=True)
    )


def _seldom_made(module: ModuleIndex, test: ast.AST) -> ast.Call | None:
    """The call that gave the name of ``metrics is not None``."""
    match test:
        case ast.Compare(left=ast.Name() as name, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            bindings = reaching(module, module.scope(name).lookup(name.id), name)
            value = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
            return value if isinstance(value, ast.Call) else None
    return None


def _is_made_seldom(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a function of the tree returns None but every N iterations."""
    callees = project.fact(Resolver).callees(module, call)
    returned = [
        (callee.module, statement)
        for callee in callees
        if isinstance(callee.node, ast.FunctionDef)
        for statement in walk(callee.node)
        if isinstance(statement, ast.Return) and callee.module.function(statement) is callee.node
    ]
    given = [(where, one) for where, one in returned if not _is_none(one.value)]
    return bool(given) and all(
        any(is_periodic(project, where, test, holds) for test, holds in conditions(where, one)) for where, one in given
    )


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)
