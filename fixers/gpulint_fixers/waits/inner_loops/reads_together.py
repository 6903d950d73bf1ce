"""Numbers that an inner loop of a step reads from the GPU one by one: one copy brings all, with equal values."""

from __future__ import annotations

import ast
from typing import TypeGuard

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.workspace.module_index import COMPREHENSIONS, FUNCTIONS, LOOPS, ModuleIndex
from gpulint_fixers.edits.calls import WIDTH
from gpulint_fixers.edits.statements import insert_above
from gpulint_fixers.edits.versions import predates_device_argument
from gpulint_fixers.waits.device_reads import DeviceRead, read_around, reads_of, torch_of, uses_other_library
from gpulint_fixers.waits.fix_kinds import TableRead
from gpulint_fixers.waits.inner_loops.element_reads import elements
from gpulint_fixers.waits.inner_loops.generator_sums import summed_once
from gpulint_fixers.waits.inner_loops.hoisted_copies import copied_where_made
from gpulint_fixers.waits.inner_loops.host_copies import copied_first
from gpulint_fixers.waits.inner_loops.inner_lists import collected
from gpulint_fixers.waits.inner_loops.stacked_copies import stacked
from gpulint_fixers.waits.lists.row_lists import extended

_NAMES = ("values", "numbers", "read_values")
_VALUE = ("value", "number", "read_value")


def read_together(project: Project, found: HostWait) -> Fix | None:
    """The fix for reads in an inner loop; None for all others."""
    if uses_other_library(found.module) or predates_device_argument(found.module):
        return None
    made = extended(found) or elements(project, found) or stacked(project, found) or _of_values(project, found)
    return made or summed_once(project, found) or copied_first(project, found) or copied_where_made(found)


def _of_values(project: Project, found: HostWait) -> Fix | None:
    """The fix for the values of a table, and for those that a list collects."""
    module, statement = found.module, found.statement
    reads = reads_of(found)
    torch = torch_of(module)
    if isinstance(reads, Declined) or torch is None or not reads or not isinstance(statement, ast.stmt):
        return None
    inner = _inner(found, reads[0].whole)
    if inner is None:
        return None
    edits = _of_table(module, inner, reads, torch)
    if edits is None:
        return collected(project, found, inner, reads, torch)
    what = "read the values of the table in one copy instead of one by one"
    return TableRead(f"{what}; they have to be tensors of one type, on one device", Safety.UNSAFE, edits)


def only_kept(statement: ast.AST) -> bool:
    """Return whether a statement lists a number or adds it up, which no step needs: ``sums[name] += loss.item()``."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"), args=[ast.Call()])):
            return True
        case ast.AugAssign(op=ast.Add(), value=ast.Call()):
            return True
    return False


def _inner(found: HostWait, node: ast.expr) -> ast.For | ast.expr | None:
    """The innermost loop or comprehension around a read, if each step runs all of it."""
    for up in found.module.syntax.ancestors(node):
        if isinstance(up, (ast.For, *COMPREHENSIONS)):
            return None if up is found.context.loop.node else up
        if isinstance(up, (*FUNCTIONS, *LOOPS, ast.Lambda)):
            break
    return None


def _of_table(
    module: ModuleIndex, inner: ast.For | ast.expr, reads: list[DeviceRead], torch: str
) -> tuple[Edit, ...] | None:
    """``for name, loss in losses.items()`` and ``for name in losses``, where only the values' numbers are used."""
    uses: list[ast.stmt] | list[ast.expr]
    if isinstance(inner, ast.For):
        target, source, uses = inner.target, inner.iter, inner.body
        if inner.orelse or inner.type_comment:
            return None
        by_key = _by_key(module, inner, reads, torch)
        if by_key is not None:
            return by_key
    else:
        generators = inner.generators  # type: ignore[attr-defined]
        if len(generators) != 1 or generators[0].is_async:
            return None
        target, source, uses = generators[0].target, generators[0].iter, [inner]
    table, name = _values_of(target, source)
    if table is None or name is None or _may_be_empty(module, table):
        return None
    nodes = [part for one in uses for part in walk(one) if isinstance(part, ast.Name) and part.id == name]
    own = _all_reads(module, [node for node in nodes if isinstance(node.ctx, ast.Load)])
    stored = [node for node in nodes if isinstance(node.ctx, ast.Store) and node not in set(walk(target))]
    if own is None or stored or _is_changed(uses, target, table):
        return None
    if not {read.whole for read in reads} <= {read.whole for read in own}:
        return None
    if isinstance(inner, ast.For):
        return None if _read_later(module, inner, name) else _loop(module, inner, ast.unparse(table), name, own, torch)
    return _comprehension(module, inner, ast.unparse(table), name, own, torch)


def _values_of(target: ast.expr, source: ast.expr) -> tuple[ast.expr | None, str | None]:
    """The table that a loop goes through, and the variable that gets its values."""
    match source, target:
        case ast.Call(
            func=ast.Attribute(value=ast.Name() | ast.Attribute() as table, attr="items"), args=[]
        ), ast.Tuple(elts=[ast.Name(), ast.Name(id=name)]):
            return table, name
        case ast.Call(
            func=ast.Attribute(value=ast.Name() | ast.Attribute() as table, attr="values"), args=[]
        ), ast.Name(id=name):
            return table, name
    return None, None


def _may_be_empty(module: ModuleIndex, table: ast.expr) -> bool:
    """Return whether a table of an object starts empty, which there would be nothing to stack of."""
    if not isinstance(table, ast.Attribute):
        return False
    text = ast.unparse(table)
    return any(
        text in map(ast.unparse, one.targets) and isinstance(one.value, ast.Dict | ast.Call) and not _filled(one.value)
        for one in module.syntax.of(ast.Assign)
    )


def _filled(value: ast.Dict | ast.Call) -> bool:
    """Return whether a table is made with entries."""
    return bool(value.keys) if isinstance(value, ast.Dict) else bool(value.args or value.keywords)


def _all_reads(module: ModuleIndex, nodes: list[ast.Name] | list[ast.Subscript]) -> list[DeviceRead] | None:
    """The reads that uses of tensors are part of; None if one is used otherwise."""
    found = [read_around(module, node) for node in nodes]
    reads = [read for read in found if read is not None]
    return reads if reads and len(reads) == len(found) else None


def _is_changed(uses: list[ast.stmt] | list[ast.expr], target: ast.expr, table: ast.expr) -> bool:
    """Return whether the body uses the table, other than to set the entries that it goes through."""
    text = ast.unparse(table)
    used = [part for one in uses for part in walk(one) if _is_same(part, text)]
    key = target.elts[0] if isinstance(target, ast.Tuple) else None
    if uses and isinstance(uses[0], ast.expr):
        return len(used) != 1
    set_anew = [
        part.value
        for one in uses
        for part in walk(one)
        if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store) and _is_same(part.value, text)
        if key is not None and ast.unparse(part.slice) == ast.unparse(key)
    ]
    return len(used) != len(set_anew)


def _is_same(part: ast.AST, text: str) -> bool:
    return isinstance(part, ast.Name | ast.Attribute) and ast.unparse(part) == text


def _read_later(module: ModuleIndex, loop: ast.For, name: str) -> bool:
    """Return whether the loop's variable is used outside of it before it is set again, as far as lines tell."""
    inside = set(walk(loop))
    outside = [node for node in module.named.get(name, []) if node not in inside and node.lineno > loop.lineno]
    same = [node for node in outside if module.function(node) is module.function(loop)]
    first = min(same, key=lambda node: (node.lineno, node.col_offset), default=None)
    return first is not None and isinstance(first.ctx, ast.Load) and not _is_target(module, first)


def _is_target(module: ModuleIndex, node: ast.Name) -> bool:
    """Return whether a name is that of a comprehension's own variable."""
    return any(
        isinstance(part, ast.Name) and part.id == node.id
        for up in module.syntax.ancestors(node)
        if isinstance(up, COMPREHENSIONS)
        for generator in up.generators
        for part in walk(generator.target)
    )


def _loop(
    module: ModuleIndex, loop: ast.For, table: str, name: str, reads: list[DeviceRead], torch: str
) -> tuple[Edit, ...] | None:
    values = fresh(module, loop, _NAMES)
    line = f"{values} = {torch}.stack(list({table}.values())).tolist()"
    above = insert_above(module.syntax, loop, line)
    if values is None or above is None or not fits(module, loop, line):
        return None
    source = f"zip({table}, {values})" if isinstance(loop.target, ast.Tuple) else values
    return (above, _replaced(module, loop.iter, source), *_numbers(module, reads, name))


def _by_key(module: ModuleIndex, loop: ast.For, reads: list[DeviceRead], torch: str) -> tuple[Edit, ...] | None:
    """``for name in names: sums[name] += losses[name].item()``"""
    match reads[0].tensor, loop.target:
        case ast.Subscript(value=ast.Name() | ast.Attribute() as table, slice=ast.Name(id=own)), ast.Name(id=key):
            if own != key:
                return None
        case _:
            return None
    keys = loop.iter
    match keys:
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as keyed, attr="keys"), args=[]):
            keys = keyed
    if not isinstance(keys, ast.Name | ast.Attribute) or ast.unparse(keys) == ast.unparse(table):
        return None
    entry = ast.unparse(reads[0].tensor)
    inside = [part for one in loop.body for part in walk(one)]
    entries = [part for part in inside if isinstance(part, ast.Subscript) and ast.unparse(part) == entry]
    tables = [part for part in inside if _is_same(part, ast.unparse(table))]
    own_reads = _all_reads(module, entries)
    values, value = fresh(module, loop, _NAMES), fresh(module, loop, _VALUE)
    if own_reads is None or len(tables) != len(entries) or values is None or value is None:
        return None
    if any(isinstance(part, ast.Name) and part.id == key and isinstance(part.ctx, ast.Store) for part in inside):
        return None
    names = ast.unparse(keys)
    line = f"{values} = {torch}.stack([{entry} for {key} in {names}]).tolist()"
    above = insert_above(module.syntax, loop, line)
    if above is None or not fits(module, loop, line):
        return None
    return (
        above,
        _replaced(module, loop.target, f"{key}, {value}"),
        _replaced(module, loop.iter, f"zip({names}, {values})"),
        *_numbers(module, own_reads, value),
    )


def _comprehension(
    module: ModuleIndex, inner: ast.expr, table: str, name: str, reads: list[DeviceRead], torch: str
) -> tuple[Edit, ...] | None:
    """The comprehension over the numbers, which a line above reads where its own line would be too long."""
    syntax = module.syntax
    generator = inner.generators[0]  # type: ignore[attr-defined]
    source = generator.iter
    paired = isinstance(generator.target, ast.Tuple)
    read = f"{torch}.stack(list({table}.values())).tolist()"
    whole, made = False, "dict({})"
    match inner:
        case ast.ListComp(elt=value) | ast.GeneratorExp(elt=value) if not paired and not generator.ifs:
            whole = value is reads[0].whole
            made = "({})" if syntax.text(inner).startswith("(") else "{}"
        case ast.DictComp(key=ast.Name(id=key), value=value) if paired and not generator.ifs:
            whole = value is reads[0].whole and key == generator.target.elts[0].id

    def edits(values: str) -> tuple[Edit, ...]:
        pairs = f"zip({table}, {values})" if paired else values
        if whole:
            return (_replaced(module, inner, made.format(pairs)),)
        return (_replaced(module, source, pairs), *_numbers(module, reads, name))

    changed = syntax.text(inner if whole else source)
    grown = len(read) + (len(f"zip({table}, )") if paired else 0) + (len("dict()") if whole else 0)
    line = syntax.source.line((inner if whole else source).lineno)
    if "\n" not in changed and len(line) - len(changed) + grown <= max(syntax.source.width, WIDTH):
        return edits(read)
    statement = next(up for up in syntax.ancestors(inner) if isinstance(up, ast.stmt))
    values = fresh(module, statement, _NAMES)
    above = insert_above(syntax, statement, f"{values} = {read}") if not hasattr(statement, "body") else None
    if values is None or above is None or not fits(module, statement, f"{values} = {read}"):
        return None
    return (above, *edits(values))


def fresh(module: ModuleIndex, node: ast.AST, names: tuple[str, ...]) -> str | None:
    """The first of some names that the function around a node does not use."""
    region = module.function(node) or module.syntax.tree
    used = {part.id if isinstance(part, ast.Name) else part.arg for part in walk(region) if _names(part)}
    return next((name for name in names if name not in used), None)


def _names(part: ast.AST) -> TypeGuard[ast.Name | ast.arg]:
    return isinstance(part, ast.Name | ast.arg)


def fits(module: ModuleIndex, statement: ast.stmt, line: str) -> bool:
    """Return whether a line that is indented like a statement is as narrow as the file's own."""
    return statement.col_offset + len(line) <= max(module.syntax.source.width, WIDTH)


def _numbers(module: ModuleIndex, reads: list[DeviceRead], name: str) -> list[Edit]:
    return [_replaced(module, read.whole, name) for read in reads]


def _replaced(module: ModuleIndex, node: ast.expr, text: str) -> Edit:
    return Edit(module.path, module.syntax.span(node), text)
