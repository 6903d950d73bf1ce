"""Whether a name of a module has its value where code of the module runs: in a notebook, cell by cell."""

from __future__ import annotations

import ast

from gpulint.source import Span
from gpulint.workspace.module_index import FunctionNode, ModuleIndex

_PLACED = (ast.expr, ast.stmt, ast.arg, ast.alias, ast.ExceptHandler)


def runs_before(module: ModuleIndex, span: Span, name: str) -> bool:
    """Return whether code at a place runs before anything binds a name of the module, which would be a NameError. Code
    of a function runs where the module's own statements call it first."""
    bound = [one.node for one in module.top.bindings.get(name, ())]
    known = [node for node in bound if isinstance(node, _PLACED)]
    if not known or len(known) < len(bound):
        return False
    first = min(_place(module.syntax.span(node)) for node in known)
    if _place(span) >= first:
        return False
    function = _function_at(module, span)
    if function is None:
        return True
    calls = module.calls_by_name.get(function.name, ())
    return any(module.function(call) is None and _place(module.syntax.span(call)) < first for call in calls)


def _function_at(module: ModuleIndex, span: Span) -> FunctionNode | None:
    """The outermost function in whose body a place is; its defaults and decorators run where it is defined."""
    place = _place(span)
    around = [
        one
        for one in module.functions
        if _place(module.syntax.span(one.body[0])) <= place <= _end(module.syntax.span(one))
    ]
    return min(around, key=lambda one: one.lineno, default=None)


def is_named_in(module: ModuleIndex, span: Span, name: str) -> bool:
    """Return whether a name of the module is written between the ends of a place."""
    places = (_place(module.syntax.span(node)) for node in module.named.get(name, ()))
    return any(_place(span) <= place < _end(span) for place in places)


def _place(span: Span) -> tuple[int, int, int]:
    return (-1 if span.cell is None else span.cell), span.line, span.column


def _end(span: Span) -> tuple[int, int, int]:
    return (-1 if span.cell is None else span.cell), span.end_line, span.end_column
