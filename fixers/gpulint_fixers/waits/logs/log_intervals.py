"""Logging every N steps: the condition under which statements that only log should run, and the edits."""

from __future__ import annotations

import ast
from itertools import chain
from typing import TypeGuard

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.path_conditions import conditions, nested_exits
from gpulint.training.guards import Guards
from gpulint.training.loop_iterables import is_loader_name, unwrap_iterable
from gpulint.values.constants import Constants
from gpulint.values.counter_names import counts_epochs
from gpulint.values.periodic_tests import is_periodic
from gpulint.workspace.module_index import LOOPS, LoopNode, ModuleIndex, last_name
from gpulint.workspace.word_index import word_of
from gpulint_fixers.edits.numbers import replace_number
from gpulint_fixers.waits.logs.epoch_lengths import may_be_short, most_rounds
from gpulint_fixers.waits.logs.logging_runs import is_logging
from gpulint_fixers.waits.logs.scaler_waits import scaler_above
from gpulint_fixers.waits.logs.step_numbers import (
    COUNTER,
    by_ones,
    enumerates,
    increment,
    is_enumerated,
    ranges,
    running,
    starts_anew,
)

EVERY = 50
"""Steps between two lines of a log, where the program has no interval of its own."""
_SHORTER = (EVERY, 20, 10, 5)
"""Steps between two lines of a log where the loop has few rounds: at most half of them."""
_FEW = 5
"""Steps between two lines of a log that are few."""
_BAR = regex.compile(r"tqdm|(^|_)(bar|pbar|iterator|iter|progress|data)$|batch|load")
_SHUFFLES = regex.compile(r"shuffle|permutation|randperm|sample$")


@dataclass(frozen=True, slots=True)
class Interval:
    """The condition for logging, and the edits that it needs elsewhere."""

    test: str
    edits: tuple[Edit, ...] = ()
    every: str = str(EVERY)


def interval(project: Project, module: ModuleIndex, loop: LoopNode, at: ast.stmt) -> Interval | Declined:
    """Return when statements of a loop should log: as others of the loop do, else every :data:`EVERY` steps."""
    if periodic(module, loop, at) is not None:
        return Declined("it is logged every N steps already, with an N that is too small; raise it")
    counter, edits = _counter(module, loop, at)
    if (own := _own_test(project, module, loop, at)) is not None:
        return own
    if counter is None:
        return Declined("the loop has no step number by which it could log every N steps")
    if (line := scaler_above(project, module, loop, at)) is not None:
        return Declined(f"the scaler of gradients waits in line {line}, right before the value is read")
    if counter != running(module, loop) and may_be_short(project, module, loop):
        return Declined(f"with such large batches an epoch may have fewer than {EVERY} steps, the log interval")
    rounds = 0 if counter == running(module, loop) else most_rounds(project, module, loop)
    every = next((number for number in _SHORTER if not rounds or 2 * number <= rounds), None)
    if every is None:
        return Declined(f"the loop has {rounds} rounds, too few for a log interval")
    first = int(counter == _incremented(module, at) and starts_anew(module, loop, counter))
    return Interval(f"{counter} % {every} == {first}", edits, str(every))


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
                    if {ast.unparse(name) for name in walk(counter) if isinstance(name, ast.expr)} & _set_in(loop):
                        return every
    return None


def raised(project: Project, module: ModuleIndex, every: ast.expr) -> tuple[Edit, ...] | None:
    """Edits that set the interval of a log to :data:`EVERY` where it is set; None if it is set nowhere, is large, or
    counts epochs elsewhere."""
    if _is_of_epochs(project, last_name(every)):
        return None
    values = project.fact(Constants).of(module, every).values
    places = {value.place for value in values}
    if len(places) != 1 or values[0].value not in range(1, _FEW):
        return None
    return replace_number(project, places.pop(), int(str(values[0].value)), str(EVERY))


@query
def _is_of_epochs(project: Project, name: str) -> bool:
    """``epoch % args.log_interval`` anywhere in the tree."""
    return bool(name) and any(
        isinstance(part.op, ast.Mod) and last_name(part.right) == name and counts_epochs(last_name(part.left))
        for path in project.word_index.mentioning(word_of(name))
        if (module := project.module_at(path)) is not None
        for part in module.syntax.of(ast.BinOp)
    )


def _own_test(project: Project, module: ModuleIndex, loop: LoopNode, at: ast.stmt) -> Interval | None:
    """``step % args.log_interval == 0``, if that is a condition of the same block, and about logging."""
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
                ) if ast.unparse(counter) in _set_in(loop):
                    if statement.lineno < at.lineno and not _same_value(loop, ast.unparse(counter), statement, at):
                        continue
                    if isinstance(every, ast.Constant) and not (isinstance(every.value, int) and every.value >= _FEW):
                        continue
                    return Interval(module.syntax.text(test), (), ast.unparse(every))
    return None


def _same_value(loop: LoopNode, name: str, one: ast.stmt, other: ast.stmt) -> bool:
    """Return whether nothing between two statements sets the counter."""
    low, high = sorted((one.lineno, other.lineno))
    return not any(low < node.lineno < high for node in _stores(loop) if ast.unparse(node) == name)


def _set_in(loop: LoopNode) -> set[str]:
    return {ast.unparse(node) for node in _stores(loop)}


def _stores(loop: LoopNode) -> list[ast.Name | ast.Attribute]:
    """The variables, and the attributes of variables, that a loop sets."""
    return [
        part
        for part in walk(loop)
        if (isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
        or (isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and isinstance(part.value, ast.Name))
    ]


def _counter(module: ModuleIndex, loop: LoopNode, at: ast.stmt) -> tuple[str | None, tuple[Edit, ...]]:
    """The step number at a statement, and the edits that make one. A number that starts anew and is raised above the
    statement is never 0 there: the one of ``enumerate`` is, so that short epochs show something."""
    own, index = _incremented(module, at), _index(module, loop, at)
    if own is not None and (index is None or not starts_anew(module, loop, own)):
        return own, ()
    if any(_picks_steps(loop, test) for test, _ in conditions(module, at, loop)):
        return None, ()  # only some numbers come here, of which none need be a multiple
    if (on := running(module, loop)) is not None:
        return on, ()
    if isinstance(loop, ast.For):
        match loop.iter, loop.target:
            case ast.Call(), ast.Tuple(elts=[ast.Name(id="_") as unused, _]) if enumerates(loop.iter):
                name = _new_name(module, loop)
                read = any(isinstance(p, ast.Name) and p.id == "_" and isinstance(p.ctx, ast.Load) for p in walk(loop))
                edit = Edit(module.path, module.syntax.span(unused), name or "")
                return (name, (edit,)) if name is not None and not read else (None, ())
            case _ if index is not None:
                return index, ()
            case ast.Call() as source, ast.Name() as counter if (
                ranges(source) and by_ones(source) and _kept(module, loop, counter, at)
            ):
                return counter.id, ()
            case _, ast.Name(id=name) as counter if (
                COUNTER.search(name) and _counts(module, loop, name) and _kept(module, loop, counter, at)
            ):
                return name, ()
    for part in loop.body:
        if (raised := increment(part)) is not None:
            return raised, ()
    return _enumerated(module, loop)


def _index(module: ModuleIndex, loop: LoopNode, at: ast.stmt) -> str | None:
    """The number that a loop over ``enumerate(loader)`` gives to its rounds."""
    match loop:
        case ast.For(iter=source, target=ast.Tuple(elts=[ast.Name() as counter, _])) if is_enumerated(module, source):
            return counter.id if _kept(module, loop, counter, at) else None
    return None


def _picks_steps(loop: LoopNode, test: ast.expr) -> bool:
    """``step % 100 == 0``, ``divisible_by(step, 100)``: a test of the step number."""
    own = _set_in(loop)
    tested = [
        one
        for part in walk(test)
        for one in (part.args if isinstance(part, ast.Call) else [part.left] if _is_remainder(part) else [])
    ]
    return any(isinstance(part, ast.expr) and ast.unparse(part) in own for one in tested for part in walk(one))


def _is_remainder(part: ast.AST) -> TypeGuard[ast.BinOp]:
    return isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod)


def _incremented(module: ModuleIndex, at: ast.stmt) -> str | None:
    """The variable that is raised by one above a statement, in the same block."""
    place, parent = module.syntax.place(at), module.syntax.parents.get(at)
    if place is None or parent is None:
        return None
    block: list[ast.stmt] = getattr(parent, place[0])
    return next(filter(None, map(increment, block[: place[1]])), None)


def _counts(module: ModuleIndex, loop: ast.For, name: str) -> bool:
    """Return whether a loop's variable is a number: it goes through a range, or something is added to it."""
    if _is_shuffled(module, loop.iter):
        return False
    source = unwrap_iterable(loop.iter)
    if isinstance(source, ast.Name):
        values = [binding.value or binding.node for binding in module.scope(loop).lookup(source.id)]
        if any(isinstance(part, ast.Name) and part.id == "range" for value in values for part in walk(value)):
            return all(by_ones(value) for value in values if isinstance(value, ast.expr))
    return any(
        isinstance(part, ast.BinOp)
        and isinstance(part.op, ast.Add | ast.Mod)
        and isinstance(part.left, ast.Name)
        and part.left.id == name
        and isinstance(part.right, ast.Constant)
        and isinstance(part.right.value, int)
        for statement in loop.body
        for part in walk(statement)
    )


def _is_shuffled(module: ModuleIndex, source: ast.expr) -> bool:
    """Return whether what a loop goes through, also by other names, is put into a random order."""
    names, todo = set[str](), [source]
    while todo:
        new = {part.id for part in walk(todo.pop()) if isinstance(part, ast.Name)} - names
        names |= new
        todo += [one.value for name in new for one in module.scope(source).lookup(name) if one.value is not None]
    return any(
        _SHUFFLES.search(last_name(call.func)) is not None
        and bool(names & {part.id for argument in call.args for part in walk(argument) if isinstance(part, ast.Name)})
        for call in module.calls
    )


def _kept(module: ModuleIndex, loop: ast.For, counter: ast.Name, at: ast.stmt) -> bool:
    """Return whether the body leaves the counter alone before a statement."""
    syntax, last = module.syntax, at.end_lineno or at.lineno
    inner = {up for up in syntax.ancestors(at) if isinstance(up, LOOPS) and loop in syntax.ancestors(up)}
    return counter.id != "_" and all(
        store is counter or (store.lineno > last and not inner.intersection(syntax.ancestors(store)))
        for store in _stores(loop)
        if isinstance(store, ast.Name) and store.id == counter.id
    )


def _new_name(module: ModuleIndex, loop: LoopNode) -> str | None:
    """A name for the step number that the module does not use."""
    scope, names = module.scope(loop), ("step", "batch_idx", "step_index")
    return next((name for name in names if name not in module.named and not scope.lookup(name)), None)


def _enumerated(module: ModuleIndex, loop: LoopNode) -> tuple[str | None, tuple[Edit, ...]]:
    """``for step, batch in enumerate(loader)``."""
    if not isinstance(loop, ast.For) or module.scope(loop).lookup("enumerate") or is_enumerated(module, loop.iter):
        return None, ()
    known = is_loader_name(last_name(unwrap_iterable(loop.iter))) or _BAR.search(ast.unparse(loop.iter)) is not None
    if not known and not _is_bar(module, loop):
        return None, ()
    name = _new_name(module, loop)
    if name is None:
        return None, ()
    syntax, text = module.syntax, module.syntax.source.text
    start, end = syntax.offsets(loop.target)
    first, last = syntax.offsets(loop.iter)
    between = text[end:first]
    if "\n" in text[start:last] or "#" in between or between.strip(" ()") != "in":
        return None, ()
    return name, (
        Edit(syntax.path, syntax.span_at(start, end), _numbered(name, text[start:end])),
        Edit(syntax.path, syntax.span_at(first, first), "enumerate("),
        Edit(syntax.path, syntax.span_at(last, last), ")"),
    )


def _numbered(name: str, target: str) -> str:
    """``step, batch`` for ``batch``; ``step, (x, y)`` for ``x, y``, and ``step, ((a, b), y)`` for ``(a, b), y``, whose
    bracket is only that of its first part."""
    (alone,), (both,) = (ast.parse(f"{text} = batch").body for text in (target, f"{name}, {target}"))
    assert isinstance(alone, ast.Assign) and isinstance(both, ast.Assign) and isinstance(both.targets[0], ast.Tuple)
    kept = [ast.dump(one) for one in both.targets[0].elts[1:]] == [ast.dump(alone.targets[0])]
    return f"{name}, {target}" if kept else f"{name}, ({target})"


def _is_bar(module: ModuleIndex, loop: ast.For) -> bool:
    """Return whether a loop goes through a progress bar of a loader: ``loop = tqdm(loader)``."""
    bound = module.scope(loop).lookup(loop.iter.id) if isinstance(loop.iter, ast.Name) else []
    return bool(bound) and all(
        isinstance(one.value, ast.Call)
        and last_name(one.value.func) in ("tqdm", "track")
        and bool(one.value.args)
        and is_loader_name(last_name(unwrap_iterable(one.value.args[0])))
        for one in bound
    )


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
