"""Functions that say that they return numbers, by their names or docstrings: what they return stays one."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.workspace.module_index import FunctionNode

_NAME = regex.compile(
    r"(^|_)(to|as|2|get|into)_?(python_?)?(scalar|float|number|num|int|item|numpy|np|list|py|python|cpu|host)(_?value)?$"
    r"|^_*(scalar|item|tensor2\w+|tensor_to_\w+)$",
    re.IGNORECASE,
)
_TEXT = regex.compile(
    r"\b(to|into|as|returns?:?|returning)\s+(the\s+|an?\s+)?(\w+\s+)?((python|plain|scalar)\s+)?"
    r"(scalar|float|number|int|integer)s?\b(?!\s+tensor)",
    re.IGNORECASE,
)
"""``Convert a tensor to a scalar number.``, ``Returns: float``"""


def promises_number(function: FunctionNode) -> bool:
    """Return whether a function says that what it returns is a number of Python."""
    if isinstance(function, ast.Lambda):
        return False
    if _NAME.search(function.name):
        return True
    text = ast.get_docstring(function, clean=False) or ""
    return _TEXT.search(text) is not None
