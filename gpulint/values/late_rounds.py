"""Tests that hold in the last rounds of a loop only: ``step >= total - length``."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import ModuleIndex, last_name

_END = regex.compile(r"^len$|(^|_)(total|max|num|n|last|final)_")
"""Names of how many rounds there are."""


def is_among_last(module: ModuleIndex, test: ast.Compare) -> bool:
    """``step >= total - length``, also by a name for the difference."""
    if not isinstance(test.ops[0], ast.Gt | ast.GtE) or len(test.ops) > 1:
        return False
    least = test.comparators[0]
    if isinstance(least, ast.Name):
        bindings = reaching(module, module.scope(least).lookup(least.id), least)
        least = bindings[0].value if len(bindings) == 1 and bindings[0].value is not None else least
    while isinstance(least, ast.Call) and last_name(least.func) in ("max", "int") and least.args:
        least = next((given for given in least.args if not isinstance(given, ast.Constant)), least.args[0])
    while isinstance(least, ast.BinOp) and isinstance(least.op, ast.Sub):
        if not isinstance(least.right, ast.Constant) or _END.search(last_name(least.left)):
            return True
        least = least.left
    return False
