"""Taking out whole statements and commands."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from gpulint_fixers.edits.statements import remove_lines, remove_statement

from gpulint.documents.python import PythonModule
from gpulint.edits import apply
from gpulint.finding import Place
from gpulint.source import SourceText


def without(text: str, command: str) -> str | None:
    """``text`` after the removal of ``command``; None if it has to stay."""
    source = SourceText(text)
    start = text.index(command)
    edit = remove_lines(source, Place(Path("run.sh"), source.span(start, start + len(command))))
    return None if edit is None else apply(text, [edit])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nsleep 9\nb\n", "a\nb\n"),
        ("a\n  sleep 9;\nb\n", "a\nb\n"),
        ("a\nsleep 9  # let logs flush\nb\n", "a\n# let logs flush\nb\n"),
        ("if x; then\n  a\n  sleep 9\nfi\n", "if x; then\n  a\nfi\n"),
        ("a; sleep 9\n", None),
        ("sleep 9 && a\n", None),
        ("if x; then\n  sleep 9\nfi\n", None),
        ("f() {\n  sleep 9\n}\n", None),
        ("while x\ndo\n  sleep 9\ndone\n", None),
    ],
)
def test_remove_lines(text: str, expected: str | None) -> None:
    assert without(text, "sleep 9") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f():\n    a()\n    stop();\n\nb()\n", "def f():\n    a()\n\nb()\n"),
        ("a()\nstop() ; # why\nb()\n", "a()\n# why\nb()\n"),
        ("a()\nstop(); c() # why\nb()\n", "a()\nc() # why\nb()\n"),
        ("a()\nstop()", "a()\n"),
        ("a()\rstop()\rb()", "a()\rb()"),
        ("if a:\n    stop();\nb()\n", "if a:\n    pass;\nb()\n"),
    ],
)
def test_remove_statement(text: str, expected: str) -> None:
    module = PythonModule(Path("a.py"), text, SourceText(text).span)
    (statement,) = [node for node in module.nodes if isinstance(node, ast.Expr) and module.text(node) == "stop()"]
    edit = remove_statement(module, statement)
    assert edit is not None
    assert apply(text, [edit]) == expected
