"""Pipelines of ``tf.data`` that hold one element, so that there is no second one to prepare at the same time."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

_MULTIPLY = frozenset(
    "repeat flat_map interleave unbatch rebatch concatenate zip choose_from_datasets sample_from_datasets apply".split()
)
"""Methods after which there may be more elements."""


def has_one_element(module: ModuleIndex, call: ast.Call, before: Sequence[NodeRef]) -> bool:
    """Return whether the calls of a pipeline before one of its calls leave a single element: ``from_tensors(x)``,
    ``take(1)``."""
    earlier = [
        part.node
        for part in before
        if isinstance(part.node, ast.Call) and not (part.module is module and part.node.lineno > call.lineno)
    ]
    return any(map(_makes_one, earlier)) and not any(last_name(part.func) in _MULTIPLY for part in earlier)


def _makes_one(call: ast.Call) -> bool:
    match last_name(call.func), call.args:
        case "from_tensors", _:
            return True
        case "take" | "range", [ast.Constant(value=1)]:
            return True
        case "from_tensor_slices", [ast.List(elts=[only])]:
            return not isinstance(only, ast.Starred)
    return False
