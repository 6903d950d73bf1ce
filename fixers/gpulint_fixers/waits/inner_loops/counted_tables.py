"""Numbers that each round of an inner loop reads for an entry of a table: sums of each class for a score."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from itertools import takewhile

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.fix import Edit, Fix, Safety
from gpulint.records import dataclass
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_fixers.edits.calls import WIDTH
from gpulint_fixers.edits.statements import insert_above, insert_after
from gpulint_fixers.edits.structural import indentation_step
from gpulint_fixers.waits.device_reads import DeviceRead, device_read
from gpulint_fixers.waits.element_types import is_float, is_integer, is_truth, only_value

_LISTS = ("values", "numbers", "read_values")
_TO_HOST = frozenset({"cpu", "numpy", "tolist"})
_CLASSES = regex.compile(r"class|label|categor|head|channel|\bnum\b|cls", re.IGNORECASE)
"""What there is at least one of."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """``self.hits[c] += found.item()``: the statement, the read, and a name for its number."""

    statement: ast.Assign | ast.AugAssign
    read: DeviceRead
    name: str


def tabled(found: HostWait, inner: ast.For, torch: str) -> Fix | None:
    """Read the numbers of all rounds at once, and set the entries in a loop of their own; None for other loops."""
    module = found.module
    entries = _entries(module, inner)
    if found.statement not in [one.statement for one in entries] or not _alike(module, entries):
        return None
    if not isinstance(inner.target, ast.Name) or not _counts(inner) or _leaves(inner):
        return None
    region = module.function(inner) or module.syntax.tree
    used = {part.id for part in walk(region) if isinstance(part, ast.Name)}
    table = next((name for name in _LISTS if name not in used), None)
    if table is None or len({one.name for one in entries}) < len(entries) or not _are_own(module, inner, entries):
        return None
    lines = _loop(module, inner, entries, torch, table)
    above, after = insert_above(module.syntax, inner, f"{table} = []"), insert_after(module, inner, lines)
    if above is None or after is None:
        return None
    syntax, tensors = module.syntax, [one.read.tensor_text(module) for one in entries]
    kept = tensors[0] if len(tensors) == 1 else f"{torch}.stack(({', '.join(tensors)}))"
    start, end = syntax.offsets(entries[0].statement)[0], syntax.offsets(entries[-1].statement)[1]
    if "#" in syntax.source.text[start:end]:
        return None
    moved = Edit(module.path, syntax.span_at(start, end), f"{table}.append({kept})")
    if max(map(len, after.text.splitlines())) > max(syntax.source.width, WIDTH):
        return None
    return Fix(
        "read the numbers of all rounds in one copy after the loop; they have to be of one type",
        Safety.UNSAFE,
        (above, moved, after),
    )


def _entries(module: ModuleIndex, inner: ast.For) -> list[_Entry]:
    """The statements at the end of each round that set an entry."""
    found = (_entry(module, inner, statement) for statement in reversed(inner.body))
    return [one for one in takewhile(lambda one: one is not None, found) if one is not None][::-1]


def _entry(module: ModuleIndex, inner: ast.For, statement: ast.stmt) -> _Entry | None:
    match statement:
        case ast.AugAssign(target=target, op=ast.Add() | ast.Sub(), value=value):
            pass
        case ast.Assign(targets=[target], value=value):
            pass
        case _:
            return None
    match target:
        case ast.Subscript(
            value=(ast.Name() | ast.Attribute(value=ast.Name(id="self"))) as table, slice=ast.Name(id=key)
        ):
            pass
        case _:
            return None
    read = device_read(module, value) if isinstance(value, ast.Call) else None
    if read is None or read.whole is not value or not isinstance(inner.target, ast.Name) or key != inner.target.id:
        return None
    tensor = read.tensor
    made = only_value(module, tensor) if isinstance(tensor, ast.Name) else tensor
    if made is None or not _is_sum(made):
        return None
    copies = _copies(made)
    if any(last_name(copy.func) != "cpu" for copy in copies) or (copies and made is not tensor):
        return None  # a stack takes no arrays, and what waits above is not changed here
    read = replace(read, copies=copies)
    free = table.attr if isinstance(table, ast.Attribute) else f"{table.id}_value"
    name = tensor.id if isinstance(tensor, ast.Name) else free
    return _Entry(statement, read, name) if isinstance(statement, ast.Assign | ast.AugAssign) else None


def _is_sum(made: ast.expr) -> bool:
    """``mask.sum()``, which has no dimensions."""
    match made:
        case ast.Call(func=ast.Attribute(attr="sum" | "mean" | "norm"), args=[], keywords=[]):
            return not (isinstance(made.func.value, ast.Name) and made.func.value.id == "torch")  # type: ignore[attr-defined]
        case ast.Call(func=ast.Attribute(attr="sum" | "mean" | "norm", value=ast.Name(id="torch")), args=[_]):
            return not made.keywords
    return False


def _copies(made: ast.expr) -> tuple[ast.Call, ...]:
    """The copies to the host in a chain of methods, each of which waits: ``(predicted == label).cpu().sum()``."""
    found, node = list[ast.Call](), made
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Call):
            if last_name(node.func) in _TO_HOST:
                found.append(node)
            node = node.func
        else:
            node = node.value
    return tuple(found)


def _alike(module: ModuleIndex, entries: list[_Entry]) -> bool:
    """Return whether the numbers are all counts, or all floats: a stack of both would round the counts."""
    tensors = [one.read.tensor for one in entries]
    counted = [_counts_things(module, tensor) for tensor in tensors]
    return all(counted) or all(not c and is_float(module, t) for c, t in zip(counted, tensors, strict=True))


def _counts_things(module: ModuleIndex, tensor: ast.expr) -> bool:
    """``(predicted & known).sum()`` of masks, which are truth values or bytes."""
    made = only_value(module, tensor) if isinstance(tensor, ast.Name) else tensor
    match made:
        case ast.Call(func=ast.Attribute(attr="sum", value=inner), args=[]):
            return _is_mask(module, inner) or is_integer(module, made)
    return made is not None and is_integer(module, made)


def _is_mask(module: ModuleIndex, node: ast.expr) -> bool:
    match node:
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return _is_mask(module, left) and _is_mask(module, right)
        case ast.Call(func=ast.Attribute(attr="byte" | "int" | "long" | "bool")):
            return True
        case ast.Name():
            value = only_value(module, node)
            return value is not None and not isinstance(value, ast.Name) and _is_mask(module, value)
    return is_truth(module, node)


def _counts(inner: ast.For) -> bool:
    """``for c in range(n)``"""
    match inner.iter:
        case ast.Call(func=ast.Name(id="range"), args=[_], keywords=[]):
            return not inner.orelse
    return False


def _leaves(inner: ast.For) -> bool:
    """Return whether a round may end before it sets its entries."""
    return any(
        isinstance(part, ast.Break | ast.Continue | ast.Return | ast.Yield | ast.YieldFrom | ast.Try | ast.Await)
        for part in walk(inner)
    )


def _are_own(module: ModuleIndex, inner: ast.For, entries: list[_Entry]) -> bool:
    """Return whether the rounds use the tables for nothing else, and nothing uses the numbers' names after the loop."""
    inside, own = set(walk(inner)), {part for one in entries for part in walk(one.statement)}
    tables = {_table(one) for one in entries}
    if any(isinstance(part, ast.Name | ast.Attribute) and ast.unparse(part) in tables for part in inside - own):
        return False
    if len(tables) < len(entries):
        return False
    named = [node for one in entries for node in module.named.get(one.name, [])]
    if any(not isinstance(one.read.tensor, ast.Name) and module.named.get(one.name) for one in entries):
        return False
    return not any(
        isinstance(node.ctx, ast.Load)
        and node not in inside
        and any(one.node in inside for one in reaching(module, module.scope(node).lookup(node.id), node))
        for node in named
    )


def _table(one: _Entry) -> str:
    target = one.statement.targets[0] if isinstance(one.statement, ast.Assign) else one.statement.target
    return ast.unparse(target.value) if isinstance(target, ast.Subscript) else ""


def _loop(module: ModuleIndex, inner: ast.For, entries: list[_Entry], torch: str, table: str) -> str:
    """The loop that sets the entries."""
    syntax, line = module.syntax, module.syntax.source.line(inner.lineno)
    indent = line[: len(line) - len(line.lstrip())] + indentation_step(syntax, inner)
    count = ast.unparse(inner.iter.args[0]) if isinstance(inner.iter, ast.Call) else ""
    some = _CLASSES.search(count) is not None or (count.isdecimal() and int(count) > 0)
    values = f"{torch}.stack({table}).tolist()" + ("" if some else f" if {table} else []")
    names = ", ".join(one.name for one in entries)
    names = names if len(entries) == 1 else f"({names})"
    lines = [f"for {ast.unparse(inner.target)}, {names} in enumerate({values}):"]
    for one in entries:
        before, after = syntax.offsets(one.statement)[0], syntax.offsets(one.read.whole)[0]
        lines.append(f"{indent}{syntax.source.text[before:after]}{one.name}")
    return "\n".join(lines)
