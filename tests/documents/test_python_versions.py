"""Python files whose syntax is newer than the interpreter's are told as such."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpulint.documents.python import PythonDocument


def problem(text: str) -> str:
    document = PythonDocument(Path("new.py"), text)
    assert document.read_python() is None
    (problem,) = document.problems
    return problem.message


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python reads the syntax")
@pytest.mark.parametrize(
    "text",
    ["def first[T](x: T) -> T:\n    return x\n", "type Pair = tuple[int, int]\n", "x = f\"{'\\n'.join(lines)}\"\n"],
)
def test_syntax_of_a_newer_python_is_named(text: str) -> None:
    assert "Python 3.12" in problem(text)


def test_other_mistakes_are_told_as_they_are() -> None:
    assert "Python 3.12" not in problem("def f(:\n    pass\n")
