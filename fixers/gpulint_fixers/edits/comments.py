"""Comments beside a value that a fix would replace, and code in comments that reads what it would remove."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint.documents.python import PythonModule, walk
from gpulint.fix import Edit
from gpulint.project import Project
from gpulint.source import SourceText, Span

_MOST = 3
"""Most lines of a comment above a command that are read."""


def may_explain(project: Project, edit: Edit, about: str = "") -> bool:
    """Return whether a comment is behind a value that an edit replaces, other than one on the default, or right above
    it and speaks ``about`` the setting."""
    document, span = project.document(edit.path), edit.span
    if document is None or span.cell is not None:
        return False
    comment = document.source.line(span.line)[span.end_column - 1 :].partition("#")[2]
    if comment and "default" not in comment.lower():
        return True
    above = document.source.line(span.line - 1).lstrip() if about and span.line > 1 else ""
    return above.startswith("#") and about in above.lower()


def comment_beside(source: SourceText, span: Span, about: re.Pattern[str]) -> bool:
    """Return whether the comment behind a part of a shell command, or above the command, speaks ``about`` it."""
    line = span.line
    while line > 1 and source.line(line - 1).rstrip().endswith("\\"):
        line -= 1
    said = [source.line(span.end_line)[span.end_column - 1 :].partition(" #")[2]]
    for number in range(line - 1, max(line - 1 - _MOST, 0), -1):
        text = source.line(number).lstrip()
        if not text.startswith("#") or text.startswith(("#!", "#SBATCH", "#PBS", "#BSUB", "#$")):
            break
        said.append(text)
    return any(about.search(text) for text in said)


def code_in_comments(module: PythonModule, within: ast.AST | None, name: str) -> Iterator[tuple[int, ast.stmt]]:
    """Yield the lines of comments of a function, or of the whole module, that hold a statement which reads a variable:
    ``# print(labels)``."""
    source = module.source
    first, last = 1, len(source.line_starts)
    if isinstance(within, ast.stmt | ast.expr):
        span = module.span(within)
        first, last = span.line, span.end_line
        while last < len(source.line_starts) and _ends(source.line(last + 1), span.column):
            last += 1
    if module.span_at(source.line_starts[first - 1], source.line_starts[first - 1]).cell is not None:
        return
    for number in range(first, last + 1):
        text = source.line(number).strip()
        if not text.startswith("#") or name not in text:
            continue
        try:
            parsed = ast.parse(text.lstrip("# \t")).body
        except (SyntaxError, ValueError):
            continue
        for statement in parsed[:1]:
            does = isinstance(statement, ast.Assign | ast.AugAssign) or (
                isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
            )
            if does and any(
                isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load)
                for part in walk(statement)
            ):
                yield number, statement


def _ends(line: str, column: int) -> bool:
    """Return whether a line below a block is empty, or a comment that is indented as the block is."""
    text = line.strip()
    return not text or (text.startswith("#") and len(line) - len(line.lstrip()) >= column)


def commented_prints(module: PythonModule, within: ast.AST | None, name: str) -> list[Edit]:
    """The edits that remove comments which would only print a variable."""
    return [
        Edit(module.path, Span(number, 1, number + 1, 1), "")
        for number, statement in code_in_comments(module, within, name)
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and statement.value.func.id == "print"
    ]
