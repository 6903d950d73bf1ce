"""Loops over the fields of a sample, with few rounds: ``for key in self.keys: sample[key] = rows[key][a:b]``."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.workload.dataset_work import ARRANGES
from gpulint.workspace.module_index import COMPREHENSIONS, LOOPS, last_name

_FIELDS = regex.compile(r"(^|_)(keys|fields|columns|modalities|cameras|(feature|camera|field|key|column)_names)$")
"""Names of lists of what a sample consists of."""
_OF_MAPPINGS = frozenset({"keys", "values", "items"})
_WRAPS = frozenset({"list", "sorted", "tuple", "enumerate"})
_MAKES = ARRANGES | {"zeros", "ones", "full", "empty", "zeros_like", "astype", "float", "int", "print", "set_trace"}
"""Functions that take little time for each field."""
FEW = 16
"""Most fields that are written as a list."""


def arranges_fields(loop: ast.AST) -> bool:
    """Return whether a loop has one round for each field of a sample, in which it only slices, pads and casts."""
    if not isinstance(loop, ast.For) or not _are_fields(loop.iter):
        return False
    parts = [part for statement in loop.body for part in walk(statement)]
    return not any(
        isinstance(part, (*LOOPS, *COMPREHENSIONS))
        or (isinstance(part, ast.Call) and last_name(part.func) not in _MAKES)
        for part in parts
    )


def _are_fields(listed: ast.expr) -> bool:
    match listed:
        case ast.Call(func=ast.Name(id=name), args=[inner]) if name in _WRAPS:
            return _are_fields(inner)
        case ast.Call(func=ast.Attribute(attr=name), args=[]):
            return name in _OF_MAPPINGS
        case ast.Name() | ast.Attribute():
            return _FIELDS.search(last_name(listed).lower()) is not None
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return len(elements) <= FEW and all(isinstance(one, ast.Constant) for one in elements)
    return False
