"""Python files whose syntax is newer than the interpreter's are read, or told as such."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from gpulint.documents.newer_syntax import parse
from gpulint.documents.python import PythonDocument

OLD = pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python reads the syntax")


def problem(text: str) -> str:
    document = PythonDocument(Path("new.py"), text)
    assert document.read_python() is None
    (problem,) = document.problems
    return problem.message


def calls(tree: ast.AST) -> list[tuple[int, int, int | None]]:
    return sorted((n.lineno, n.col_offset, n.end_col_offset) for n in ast.walk(tree) if isinstance(n, ast.Call))


@pytest.mark.parametrize(
    ("text", "older"),
    [
        ('print(f"{d["key"]}")', "print(f\"{d['key']}\")"),
        ("print(f'{d['a']:{w['b']}} {{x}}', go(1))", 'print(f\'{d["a"]:{w["b"]}} {{x}}\', go(1))'),
        ("log(f\"{'\\n'.join(rows)}\", go(1))", "log(f\"{'__'.join(rows)}\", go(1))"),
        ('f(f"""{x["a"]} {\'\'\'b\'\'\'}""")', 'f(f"""{x["a"]} {\'\'\'b\'\'\'}""")'),
        ('say(f"{f"{a("x")}"}")', "say(f\"{f'{a(___)}'}\")"),
        (
            "def first[T: int, *Ts](x: T) -> T:\n    return go(x)\n",
            "def first            (x: T) -> T:\n    return go(x)\n",
        ),
        ("class Box[T](Base):\n    size = go()\n", "class Box   (Base):\n    size = go()\n"),
        ("type Pair[T] = tuple[T, T]\nx = go()\n", "type;Pair    = tuple[T, T]\nx = go()\n"),
        ('# it\'s "\nx = go(f"{d["k"]}")  # f"{"\n', '# it\'s "\nx = go(f"{d[\'k\']}")  # f"{"\n'),
    ],
)
def test_syntax_of_python_312_is_read_with_all_nodes_at_their_places(text: str, older: str) -> None:
    assert calls(parse(text)) == calls(ast.parse(older))


def test_strings_in_such_fields_keep_their_values() -> None:
    tree = parse('x = f"{d["key"]}"')
    assert "key" in {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}


@OLD
@pytest.mark.parametrize("text", ['x = f"{a(\n1)}"\n', "def first[\n    T](x: T) -> T:\n    return x\n"])
def test_what_cannot_be_read_is_told_as_newer(text: str) -> None:
    assert "Python 3.12" in problem(text)


def test_other_mistakes_are_told_as_they_are() -> None:
    assert "Python 3.12" not in problem("def f(:\n    pass\n")
