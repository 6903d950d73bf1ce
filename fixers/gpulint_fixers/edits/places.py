"""Conversions of a variable's uses in their places, those in f-strings among them."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.fix import Edit
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.edits.string_places import converted_in_string, is_converted


def in_place_of(module: ModuleIndex, names: list[ast.Name], convert: str) -> list[Edit] | None:
    """Conversions of uses where they are; None if one is in an f-string."""
    syntax = module.syntax
    if any(syntax.text(node) != node.id or in_f_string(module, node) for node in names):
        return None
    if any(isinstance(node.ctx, ast.Store) for node in names):
        return None
    names = [node for node in names if not is_converted(module, node, convert)]
    return [Edit(syntax.path, syntax.span(node), convert.format(node.id)) for node in names]


def in_each_place(module: ModuleIndex, names: list[ast.Name], convert: str, *, entries: bool) -> list[Edit] | None:
    """Conversions of uses where they are, those in f-strings as well; a format needs none.

    With ``entries`` a use that takes one entry of a table converts that alone.
    """
    edits = list[Edit]()
    for node in names:
        entry = module.syntax.parents.get(node)
        if entries and isinstance(entry, ast.Subscript) and entry.value is node:
            made = _entry(module, entry)
        elif entries and (values := _values(module, node)) is not None:
            made = in_each_place(module, values, "float({})", entries=False)
        elif not in_f_string(module, node):
            made = in_place_of(module, [node], convert)
        elif shows(module, node, convert):
            made = []
        else:
            edit = converted_in_string(module, node, convert.format(node.id))
            made = [edit] if edit is not None else [] if formats(module, node) else None
        if made is None:
            return None
        edits += made
    return edits


def _entry(module: ModuleIndex, entry: ast.Subscript) -> list[Edit] | None:
    """``float(metrics["loss"])``"""
    if not isinstance(entry.ctx, ast.Load):
        return None
    if in_f_string(module, entry):
        return [] if formats(module, entry) else None
    return [Edit(module.path, module.syntax.span(entry), f"float({module.syntax.text(entry)})")]


def _values(module: ModuleIndex, node: ast.Name) -> list[ast.Name] | None:
    """The uses of ``value`` in ``for key, value in metrics.items()``; None where a table is used otherwise."""
    method = module.syntax.parents.get(node)
    call = module.syntax.parents.get(method) if isinstance(method, ast.Attribute) and method.attr == "items" else None
    match module.syntax.parents.get(call) if isinstance(call, ast.Call) else None:
        case ast.For(target=ast.Tuple(elts=[ast.Name(), ast.Name(id=name)]), iter=iterable, body=body) if (
            iterable is call
        ):
            names = [part for one in body for part in walk(one) if isinstance(part, ast.Name) and part.id == name]
            return names if all(isinstance(part.ctx, ast.Load) for part in names) else None
    return None


def is_entry(module: ModuleIndex, node: ast.Name) -> bool:
    """``table["loss"]``"""
    up = module.syntax.parents.get(node)
    return isinstance(up, ast.Subscript) and up.value is node


def gives_keys(module: ModuleIndex, node: ast.Name) -> bool:
    """``for key in table:``, ``for key in table.keys():``, ``if key in table:``, which read no value."""
    used: ast.expr = node
    up = module.syntax.parents.get(node)
    if (
        isinstance(up, ast.Attribute)
        and up.attr == "keys"
        and isinstance(call := module.syntax.parents.get(up), ast.Call)
    ):
        up, used = module.syntax.parents.get(call), call
    match up:
        case ast.For(iter=asked) | ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[asked]):
            return asked is used
    return False


def formats(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a value, or an entry of a table, is shown by an f-string with a format, which reads a tensor of
    one number by itself."""
    inner = module.syntax.parents.get(node)
    entry = inner if isinstance(inner, ast.Subscript) and inner.value is node else node
    up = next((outer for outer in module.syntax.ancestors(entry) if not isinstance(outer, ast.BinOp)), None)
    return isinstance(up, ast.FormattedValue) and up.format_spec is not None and up.conversion == -1


def shows(module: ModuleIndex, node: ast.expr, convert: str) -> bool:
    """Return whether a format shows what ``convert`` would give; a tensor of integers is divided in single precision,
    and not as integers of Python are."""
    counted = convert.startswith("int(") and isinstance(module.syntax.parents.get(node), ast.BinOp)
    return formats(module, node) and not counted


def in_f_string(module: ModuleIndex, node: ast.AST) -> bool:
    """Before Python 3.12 the places inside of f-strings are not to be relied on."""
    return any(isinstance(up, ast.JoinedStr) for up in module.syntax.ancestors(node))
