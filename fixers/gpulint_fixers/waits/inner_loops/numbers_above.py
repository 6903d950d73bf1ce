"""Tables that an inner loop makes numbers of, and whose values it reads at other places of a round as well."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.fix import Edit
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.edits.statements import insert_above, remove_statement
from gpulint_fixers.waits.device_reads import DeviceRead, read_around

_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Try)


def is_read_again(module: ModuleIndex, loop: ast.For, read: DeviceRead) -> bool:
    """Return whether a round reads the same tensor elsewhere as well."""
    return any(use is not read.tensor and read_around(module, use) is not None for use in _uses(loop, read))


def read_above(module: ModuleIndex, loop: ast.For, read: DeviceRead, lines: str) -> tuple[Edit, ...] | None:
    """Read all values above a loop with these lines, so that its variable is a number wherever a round reads it, and
    leave out what set the entries; None where a round needs a tensor, or may leave some entries as they are."""
    if any(isinstance(part, _LEAVES) for part in walk(loop)) or _is_used_outside(module, loop, read):
        return None
    own = next(one for one in module.syntax.ancestors(read.whole) if isinstance(one, ast.stmt))
    edits = list[Edit]()
    for use in _uses(loop, read):
        other = read_around(module, use)
        number = _number(other.whole, use) if other is not None else ""
        if other is None or not number or (other.whole is read.whole and number != use.id):
            return None
        if other.whole is not read.whole:
            edits.append(Edit(module.path, module.syntax.span(other.whole), number))
    above, gone = insert_above(module.syntax, loop, lines), remove_statement(module.syntax, own)
    if above is None or gone is None or "#" in module.syntax.source.line(own.lineno):
        return None
    return above, gone, *edits


def _uses(loop: ast.For, read: DeviceRead) -> list[ast.Name]:
    name = read.tensor.id if isinstance(read.tensor, ast.Name) else ""
    return [part for part in walk(loop) if isinstance(part, ast.Name) and part.id == name and _is_load(part)]


def _is_load(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def _number(whole: ast.expr, use: ast.Name) -> str:
    """Return what stands for a read once its variable is a number: ``value`` for ``value.item()``; empty for other
    reads."""
    match whole:
        case ast.Call(func=ast.Attribute(attr="item")):
            return use.id
        case ast.Call(func=ast.Name(id="float")):
            return f"float({use.id})"
    return ""


def _is_used_outside(module: ModuleIndex, loop: ast.For, read: DeviceRead) -> bool:
    """Return whether the function uses the loop's variable below the loop before another loop or statement sets it, as
    far as names tell, or a round sets it anew."""
    name = read.tensor.id if isinstance(read.tensor, ast.Name) else ""
    inside, function = set(walk(loop)), module.function(loop)
    named = [one for one in module.named.get(name, ()) if module.function(one) is function]
    if sum(one in inside and not _is_load(one) for one in named) != 1:
        return True
    below = [one for one in named if one not in inside and one.lineno > loop.lineno]
    first = min(below, key=lambda one: (one.lineno, one.col_offset), default=None)
    return first is not None and _is_load(first)
