"""Blocks that run only until a table has a key, which they add."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.python import walk
from gpulint.semantic.path_conditions import parts_of
from gpulint.workspace.module_index import LOOPS, ModuleIndex, last_name

_VIEWS = frozenset({"keys", "copy"})
_COPIES = frozenset({"list", "set", "sorted", "tuple", "frozenset"})
_MAKES_EMPTY = frozenset({"dict", "defaultdict", "OrderedDict"})
_ADDS = frozenset({"update", "setdefault", "__setitem__"})


def adds_key(module: ModuleIndex, test: ast.expr, holds: bool, block: list[ast.stmt]) -> bool:
    """``if key not in table: table[key] = ...``, ``if len(table) == 0: table["step"] = 0`` of a table that is kept."""
    asked = (_without_key(part, wanted) for part, wanted in parts_of(test, holds))
    tables = {ast.unparse(table): table for table in asked if table is not None}
    return any(
        name in tables and not _is_new(module, tables[name]) for statement in block for name in _added(statement)
    )


def _added(statement: ast.stmt) -> Iterator[str]:
    """Yield the tables that a statement adds keys to."""
    for part in walk(statement):
        match part:
            case ast.Subscript(value=table, ctx=ast.Store()):
                yield ast.unparse(table)
            case ast.Call(func=ast.Attribute(value=table, attr=name)) if name in _ADDS:
                yield ast.unparse(table)


def _without_key(test: ast.expr, holds: bool) -> ast.expr | None:
    """Return the table that lacks a key, or all of them, if a test holds or fails."""
    match test:
        case ast.Compare(left=_, ops=[ast.NotIn()], comparators=[table]) if holds:
            return _of_view(table)
        case ast.Compare(left=_, ops=[ast.In()], comparators=[table]) if not holds:
            return _of_view(table)
        case ast.Compare(left=asked, ops=[ast.Is()], comparators=[ast.Constant(value=None)]) if holds:
            return _of_lookup(asked)
        case ast.Compare(left=asked, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]) if not holds:
            return _of_lookup(asked)
        case ast.Compare(left=size, ops=[ast.Eq()], comparators=[ast.Constant(value=0)]) if holds:
            return _of_length(size)
        case ast.Compare(left=size, ops=[ast.Gt() | ast.NotEq()], comparators=[ast.Constant(value=0)]) if not holds:
            return _of_length(size)
        case ast.Name() | ast.Attribute() | ast.Subscript() if not holds:
            return test
        case ast.Call() if not holds:
            return _of_lookup(test) or _of_length(test)
    return None


def _of_view(table: ast.expr) -> ast.expr:
    """``table`` of ``table.keys()``, of ``list(table)``"""
    match table:
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[]) if name in _VIEWS:
            return _of_view(inner)
        case ast.Call(func=ast.Name(id=name), args=[inner]) if name in _COPIES:
            return _of_view(inner)
    return table


def _of_lookup(asked: ast.expr) -> ast.expr | None:
    """``table`` of ``table.get(key)``"""
    match asked:
        case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[_]):
            return table
        case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[_, ast.Constant(value=None)]):
            return table
    return None


def _of_length(size: ast.expr) -> ast.expr | None:
    """``table`` of ``len(table)``"""
    match size:
        case ast.Call(func=ast.Name(id="len"), args=[table]):
            return _of_view(table)
    return None


def _is_new(module: ModuleIndex, table: ast.expr) -> bool:
    """Return whether each round, or each call, makes an empty table of this name."""
    bindings = module.scope(table).lookup(table.id) if isinstance(table, ast.Name) else ()
    function = module.function(table)
    return bool(bindings) and all(
        one.value is not None
        and not one.path
        and _is_empty_table(one.value)
        and module.function(one.node) is function
        and _innermost(module, one.node) is _innermost(module, table)
        for one in bindings
    )


def _is_empty_table(value: ast.AST) -> bool:
    match value:
        case ast.Dict(keys=[]):
            return True
        case ast.Call(func=func):
            return last_name(func) in _MAKES_EMPTY
    return False


def _innermost(module: ModuleIndex, node: ast.AST) -> ast.AST | None:
    return next((up for up in module.syntax.ancestors(node) if isinstance(up, LOOPS)), None)
