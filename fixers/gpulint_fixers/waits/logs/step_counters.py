"""The number of a step at a statement of a loop, and the edits that make one where there is none."""

from __future__ import annotations

import ast
from typing import TypeGuard

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.fix import Edit
from gpulint.semantic.path_conditions import conditions
from gpulint.training.loop_iterables import is_loader_name, unwrap_iterable
from gpulint.values.tests_elsewhere import named_test
from gpulint.workspace.module_index import LOOPS, LoopNode, ModuleIndex, last_name
from gpulint_fixers.waits.logs.progress_bars import shows_in_new_bar
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

_BAR = regex.compile(r"tqdm|(^|_)(bar|pbar|iterator|iter|progress|data)$|batch|load")
_BOUNDARY = regex.compile(r"^sync_gradients$|accumulation_boundary$")
"""Names of what tells whether a batch is the last of those whose gradients are added up."""
_SHUFFLES = regex.compile(r"shuffle|permutation|randperm|sample$")


def set_in(loop: LoopNode) -> set[str]:
    return {ast.unparse(node) for node in stores(loop)}


def stores(loop: LoopNode) -> list[ast.Name | ast.Attribute]:
    """The variables, and the attributes of variables, that a loop sets."""
    return [
        part
        for part in walk(loop)
        if (isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
        or (isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and isinstance(part.value, ast.Name))
    ]


def counter_at(module: ModuleIndex, loop: LoopNode, at: ast.stmt) -> tuple[str | None, tuple[Edit, ...]]:
    """The step number at a statement, and the edits that make one. A number that starts anew and is raised above the
    statement is never 0 there: the one of ``enumerate`` is, so that short epochs show something, as does one that goes
    on in a bar that each epoch makes anew."""
    own, index = incremented(module, at), _index(module, loop, at)
    picked = any(_picks_steps(module, loop, test) for test, _ in conditions(module, at, loop))
    on = running(module, loop)
    is_new = on is not None and not picked and shows_in_new_bar(module, loop, at)
    if (
        own is not None
        and not (is_new and own == on)
        and (picked or index is None or not starts_anew(module, loop, own))
    ):
        return own, ()
    if picked:
        return None, ()  # only some numbers come here, of which none need be a multiple
    if is_new and isinstance(loop, ast.For):
        return (index, ()) if index is not None else _numbered_rounds(module, loop)
    if on is not None:
        return on, ()
    if isinstance(loop, ast.For):
        match loop.iter, loop.target:
            case ast.Call(), ast.Tuple(elts=[ast.Name(id="_"), _]) if enumerates(loop.iter):
                return _numbered_rounds(module, loop)
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


def _numbered_rounds(module: ModuleIndex, loop: ast.For) -> tuple[str | None, tuple[Edit, ...]]:
    """Give the number of ``for _, batch in enumerate(loader)`` a name, or enumerate the rounds."""
    match loop.iter, loop.target:
        case ast.Call(), ast.Tuple(elts=[ast.Name(id="_") as unused, _]) if enumerates(loop.iter):
            name = _new_name(module, loop)
            read = any(isinstance(p, ast.Name) and p.id == "_" and isinstance(p.ctx, ast.Load) for p in walk(loop))
            edit = Edit(module.path, module.syntax.span(unused), name or "")
            return (name, (edit,)) if name is not None and not read else (None, ())
    return _enumerated(module, loop)


def _index(module: ModuleIndex, loop: LoopNode, at: ast.stmt) -> str | None:
    """The number that a loop over ``enumerate(loader)`` gives to its rounds."""
    match loop:
        case ast.For(iter=source, target=ast.Tuple(elts=[ast.Name() as counter, _])) if is_enumerated(module, source):
            return counter.id if _kept(module, loop, counter, at) else None
    return None


def _picks_steps(module: ModuleIndex, loop: LoopNode, test: ast.expr) -> bool:
    """``step % 100 == 0``, ``divisible_by(step, 100)``, ``accelerator.sync_gradients``: a test of the step number, or
    whether a step of the optimizer ends here."""
    if any(isinstance(part, ast.Name | ast.Attribute) and _BOUNDARY.search(last_name(part)) for part in walk(test)):
        return True
    named = [named_test(module, part) for part in walk(test) if isinstance(part, ast.Name)]
    own = set_in(loop)
    return any(_asks_number(own, one) for one in (test, *named) if one is not None)


def _asks_number(own: set[str], test: ast.expr) -> bool:
    """Return whether a test computes with one of the variables, or calls something for it."""
    tested = [
        one
        for part in walk(test)
        for one in (part.args if isinstance(part, ast.Call) else [part.left] if _is_remainder(part) else [])
    ]
    return any(isinstance(part, ast.expr) and ast.unparse(part) in own for one in tested for part in walk(one))


def _is_remainder(part: ast.AST) -> TypeGuard[ast.BinOp]:
    return isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod)


def incremented(module: ModuleIndex, at: ast.stmt) -> str | None:
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
        for store in stores(loop)
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
