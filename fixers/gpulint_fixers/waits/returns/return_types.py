"""What a function says about the numbers that it returns, where it returns tensors from now on."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpulint import regex
from gpulint.fix import Declined, Edit
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, last_name

_RETURNS = regex.compile(r"\b[Rr]eturns?\b")
_NUMBERS = regex.compile(r"\b(floats?|ints?|integers?|python numbers?|scalars? values?)\b")
_STALE = Declined("the function's annotation says that it returns numbers, and could not be changed")


def promises_numbers(function: FunctionNode) -> bool:
    """Return whether a function's docstring says that it returns numbers: ``Returns: loss as a float``."""
    text = "" if isinstance(function, ast.Lambda) else ast.get_docstring(function) or ""
    found = _RETURNS.search(text)
    return found is not None and _NUMBERS.search(text, found.end()) is not None


def annotated(module: ModuleIndex, function: FunctionNode, places: Iterable[int]) -> tuple[Edit, ...] | Declined:
    """Edits of the annotation for what is a tensor now: the value itself (-1), or parts of a tuple."""
    if promises_numbers(function):
        return Declined("the function's docstring says that it returns numbers")
    shown = None if isinstance(function, ast.Lambda) else function.returns
    if shown is None:
        return ()
    name = next((name for name in ("torch.Tensor", "Tensor") if name.partition(".")[0] in module.top.bindings), "")
    edits = list[Edit]()
    for at in places:
        part: ast.expr | None = shown
        if at >= 0:
            parts = _parts(shown)
            if parts is None or at >= len(parts):
                return _STALE if _says_number(shown) else ()
            part = parts[at]
        assert part is not None
        if not _says_number(part):
            continue
        if not isinstance(part, ast.Name) or not name:
            return _STALE
        edits.append(Edit(module.path, module.syntax.span(part), name))
    return tuple(edits)


def _parts(shown: ast.expr) -> list[ast.expr] | None:
    """The types of ``tuple[torch.Tensor, float]``."""
    match shown:
        case ast.Subscript(value=owner, slice=ast.Tuple(elts=parts)) if last_name(owner) in ("tuple", "Tuple"):
            return parts
    return None


def _says_number(shown: ast.expr) -> bool:
    text = ast.unparse(shown)
    return _NUMBERS.search(text) is not None and "Tensor" not in text
