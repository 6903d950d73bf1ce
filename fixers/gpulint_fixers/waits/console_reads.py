"""Variables of a script that people may read in the console after a run: to plot them, or cell by cell."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpulint import regex
from gpulint.documents.exits import is_notebook_like
from gpulint.source import SourceText
from gpulint_fixers.waits.deferred_reads import Variable

MAX_LINES = 10
"""Lines of a paragraph above a statement that are looked through for its comment."""
_FOR_PEOPLE = regex.compile(r"(?i)#.*\b(plot|visuali[sz]|inspect|analy[sz]|figure|chart|graphs?\b|console)")
"""Comments on values that somebody looks at."""
_OF_SPYDER = regex.compile(r"\s*Created on \w{3} +\w{3} +\d{1,2} ")
"""The header that Spyder writes, which runs scripts in its console, where their variables stay."""


def may_be_read_in_console(variable: Variable, statements: Iterable[ast.stmt | ast.expr]) -> bool:
    """Return whether a variable is one of a script's top that nothing in it reads, but perhaps the person who runs it:
    by a comment on what sets it, or by signs of a console."""
    module = variable.module
    if module.function(variable.loop) is not None:
        return False
    syntax = module.syntax
    header = ast.get_docstring(syntax.tree, clean=False) or ""
    if is_notebook_like(syntax) or _OF_SPYDER.match(header):
        return True
    return any(_has_comment(syntax.source, one.lineno) for one in statements)


def _has_comment(source: SourceText, line: int) -> bool:
    """Return whether the comment of a statement's paragraph, or the one behind it, says that people look at it."""
    if _FOR_PEOPLE.search(source.line(line)):
        return True
    for number in range(line - 1, max(0, line - 1 - MAX_LINES), -1):
        text = source.line(number).strip()
        if not text:
            return False
        if text.startswith("#"):
            return _FOR_PEOPLE.search(text) is not None
    return False
