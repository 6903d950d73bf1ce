"""Which names of a subscript count the elements of a tensor, and are no keys of a dictionary of tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpulint.documents.python import walk
from gpulint.workspace.module_index import LoopNode, last_name


def index_names(subscript: ast.Subscript, loops: Iterable[LoopNode | ast.comprehension]) -> set[str]:
    """Return the names in the index of a subscript, without those that are keys: what a loop of ``loops`` takes from a
    dictionary or a list of texts, and texts that are put together."""
    index = subscript.slice
    if any(isinstance(part, ast.JoinedStr) or _is_text(part) for part in walk(index)):
        return set()
    names = {part.id for part in walk(index) if isinstance(part, ast.Name)}
    for loop in loops:
        if isinstance(loop, ast.For | ast.AsyncFor | ast.comprehension):
            names -= _keys(loop, ast.unparse(subscript.value))
    return names


def _keys(loop: ast.For | ast.AsyncFor | ast.comprehension, indexed: str) -> set[str]:
    """The names of a loop that are keys: ``for key in losses``, ``for key, _ in losses.items()``, ``for key in ("a",
    "b")``."""
    source, target = loop.iter, loop.target
    if isinstance(source, ast.Call) and last_name(source.func) == "items" and isinstance(target, ast.Tuple):
        target = target.elts[0]
    elif not (
        (isinstance(source, ast.Call) and last_name(source.func) == "keys")
        or (isinstance(source, ast.List | ast.Tuple | ast.Set) and any(map(_is_text, source.elts)))
        or ast.unparse(source) == indexed
    ):
        return set()
    return {target.id} if isinstance(target, ast.Name) else set()


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
