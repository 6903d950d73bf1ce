"""Texts that expressions make of other texts (``"{}-base".format(size)``, ``"%s-base" % size``, ``name.lower()``) or
take from tables (``MODELS[args.model]``)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.semantic import dictionary_items
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.values.constants import Constants, Value

_METHODS = frozenset(
    {"format", "replace", "lower", "upper", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix"}
)
_WIDE = regex.compile(r"\d{4}|\{[^}]*\{|\*")
"""A pattern that may ask for a text of any length."""


def made(values: Constants, module: ModuleIndex, node: ast.Call | ast.BinOp) -> tuple[str, str] | None:
    """(text, who sets it) of an expression whose parts are all known; None for anything else."""
    match node:
        case ast.Call(func=ast.Attribute(value=base, attr=method), keywords=keywords) if method in _METHODS:
            parts = [base, *node.args, *(keyword.value for keyword in keywords)]
            names = [keyword.arg for keyword in keywords]
        case ast.BinOp(left=base, op=ast.Mod(), right=ast.Tuple(elts=elements)):
            method, parts, names = "%", [base, *elements], []
        case ast.BinOp(left=base, op=ast.Mod(), right=right):
            method, parts, names = "%", [base, right], []
        case _:
            return None
    known: list[Value] = []
    for part in parts:
        found = values.of(module, part)
        if not found.complete or len(found.values) != 1 or (not known and not isinstance(found.values[0].value, str)):
            return None
        known += found.values
    text, *others = (value.value for value in known)
    assert isinstance(text, str)
    if None in names or (method in ("format", "%") and _WIDE.search(text)):
        return None
    try:
        if method == "%":
            filled = text % tuple(others)
        else:
            first = len(others) - len(names)
            given = {name: value for name, value in zip(names, others[first:], strict=True) if name is not None}
            filled = getattr(text, method)(*others[:first], **given)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    return filled, next((value.source for value in known if value.source != "literal"), "literal")


def held(project: Project, module: ModuleIndex, node: ast.expr) -> list[NodeRef]:
    """Return what ``TABLE[key]``, ``TABLE.get(key)`` and ``TABLE[key]["part"]`` take from a dictionary of the tree;
    empty if the dictionary or the key is unknown."""
    from gpulint.values.arguments import Arguments
    from gpulint.values.constants import Constants

    match node:
        case ast.Subscript(value=base, slice=key):
            pass
        case ast.Call(func=ast.Attribute(value=base, attr="get"), args=[key, *_]):
            pass
        case _:
            return []
    known = project.fact(Constants).of(module, key)
    tables = [
        (table.module, table.node)
        for table in held(project, module, base) or [NodeRef(module, base)]
        if isinstance(table.node, ast.expr)
    ]
    if not known.complete:
        resolver = project.fact(Resolver)
        return [one for table in tables for one in dictionary_items.chosen(resolver, *table, ast.expr)]
    return [
        entry.ref
        for value in known.values
        for table in tables
        if isinstance(value.value, str)
        for entry in project.fact(Arguments).mapping(*table, value.value)[0]
    ]
