"""Edits that leave the syntax tree of a module as it is: comments and spaces at the ends of lines."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING, Any

from gpulint.documents.base import Document
from gpulint.documents.python import PythonDocument
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.documents.python import PythonModule
    from gpulint.workspace.tree import Tree


def track_syntax(tree: Tree) -> None:
    """Have answers about syntax stay valid over such edits. No other tree that is still used may hold the modules of
    this one, as they go on with other texts."""
    tree.db.tracks_syntax = True
    for path, module in tree.module_indexes.items():
        if module is not None:
            module.track_text(partial(tree.db.read_content, path))


def keep_syntax(tree: Tree, document: Document | None, module: ModuleIndex) -> bool:
    """Let a module go on with the new text of its file if its syntax tree stays the same, and return whether it does.
    ``document`` is the file as it was."""
    after = tree.load(module.path)
    if not isinstance(document, PythonDocument) or not isinstance(after, PythonDocument) or after.python is None:
        return False
    syntax = document.python
    if syntax is not module.syntax or not _is_same(syntax, after.python, document.source.text, after.source.text):
        return False
    syntax.go_on_with(after.python)
    module.db.forget_text()
    # Whoever still holds the old document parses its text again.
    after.__dict__["python"] = document.__dict__.pop("python")
    tree.module_indexes[module.path] = module
    return True


def _is_same(before: PythonModule, after: PythonModule, old: str, new: str) -> bool:
    """Return whether two texts have the same tree, with each node at the same place."""
    changed = _changed_lines(old, new)
    return changed is not None and _are_equal(before.tree, after.tree, *changed)


def _changed_lines(old: str, new: str) -> tuple[int, int] | None:
    """The first and the last line that differ; None if lines were added or removed."""
    lines, others = old.replace("\r\n", "\n").split("\n"), new.replace("\r\n", "\n").split("\n")
    if len(lines) != len(others) or "\r" in old.replace("\r\n", "") or "\r" in new.replace("\r\n", ""):
        return None
    changed = [number for number, pair in enumerate(zip(lines, others, strict=True), 1) if pair[0] != pair[1]]
    first, last = (changed[0], changed[-1]) if changed else (1, 1)
    # Trees count bytes, so characters before a node may change without it.
    if not all(line.isascii() for line in (*lines[first - 1 : last], *others[first - 1 : last])):
        return None
    return first, last


def _are_equal(one: ast.AST, other: ast.AST, first: int, last: int) -> bool:
    """Return whether two trees are equal, of texts that differ in the lines from ``first`` to ``last``."""
    todo: list[tuple[Any, Any]] = [(one, other)]
    while todo:
        left, right = todo.pop()
        if type(left) is not type(right):
            return False
        if isinstance(left, list):
            if len(left) != len(right):
                return False
            todo += zip(left, right, strict=True)
        elif not isinstance(left, ast.AST):
            if repr(left) != repr(right):
                return False
        elif any(getattr(left, name, None) != getattr(right, name, None) for name in left._attributes):
            return False
        elif not isinstance(left, ast.stmt) or _reaches(left, first, last):
            todo += [(getattr(left, name, None), getattr(right, name, None)) for name in left._fields]
    return True


def _reaches(statement: ast.stmt, first: int, last: int) -> bool:
    """Return whether a statement has any of the lines. One without is parsed from the same text."""
    start = min([statement.lineno, *(node.lineno for node in getattr(statement, "decorator_list", ()))])
    return start <= last and (statement.end_lineno or start) >= first
