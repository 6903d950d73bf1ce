"""Statements rewritten through LibCST."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import libcst as cst
import pytest
from gpulint_fixers.edits.structural import rewrite, wrap

from gpulint.documents import Document, load
from gpulint.edits import apply
from gpulint.fix import Declined, Edit

if TYPE_CHECKING:
    from gpulint_fixers.edits.structural import Change, Statement

HEADER = "with torch.no_grad():"


def notebook(*cells: str) -> Document:
    content = {"cells": [{"cell_type": "code", "source": cell} for cell in cells], "metadata": {}, "nbformat": 4}
    return load(Path("a.ipynb"), json.dumps(content).encode())


def statement(document: Document, start: str) -> ast.stmt:
    """The first statement whose line starts with ``start``."""
    module = document.python
    assert module is not None
    found = (node for node in module.nodes if isinstance(node, ast.stmt))
    return next(node for node in found if module.source.line(node.lineno).lstrip().startswith(start))


def rewritten(text: str, start: str, change: Change) -> str:
    document = load(Path("a.py"), text.encode())
    edits = rewrite(document, statement(document, start), change)
    assert not isinstance(edits, Declined), edits.reason
    return apply(document.source.text, edits)


def reason(edits: tuple[Edit, ...] | Declined) -> str:
    assert isinstance(edits, Declined)
    return edits.reason


def unnested(node: Statement) -> Sequence[Statement]:
    """The body of a block in its place."""
    assert isinstance(node, cst.If)
    return node.body.body  # type: ignore[return-value]


def test_a_block_moves_outwards() -> None:
    text = (
        "def f():\r\n    if a:\r\n        # why\r\n        b('''\r\n  x\r\n''')\r\n        c()  # \u00e9\r\n    d()\r\n"
    )
    assert rewritten(text, "if a", unnested) == (
        "def f():\r\n    # why\r\n    b('''\r\n  x\r\n''')\r\n    c()  # \u00e9\r\n    d()\r\n"
    )


def test_one_statement_becomes_two() -> None:
    first = cst.parse_statement("first()")
    assert rewritten("if a:\n\tb(1,\n\t\t2)  # c\n", "b(", lambda node: [first, node]) == (
        "if a:\n\tfirst()\n\tb(1,\n\t\t2)  # c\n"
    )
    assert rewritten("a()\nb()", "b(", lambda node: [node, first]) == "a()\nb()\nfirst()"


def test_the_whole_decorated_function_is_rewritten() -> None:
    def plain(node: Statement) -> Statement:
        return node.with_changes(decorators=[])

    assert rewritten("x = 1\n@a\n@b(\n  1)\ndef f():\n  pass\n", "def f", plain) == "x = 1\ndef f():\n  pass\n"


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("if a: b()\n", "if a: b", None),
        ("a(); b()\n", "a()", "shares its line"),
        ("x = \\\n1\nif a: \\\n  b()\n", "b()", "shares its line"),
        ("if a:\n  b()\nelif c:\n  d()\n", "elif c", "`elif`"),
        ('for x in y:\n  print(f"""{\n  x = }""")\n', "for x", "change a string"),
        ("x = " + "-" * 900 + "1\n", "x", "too deeply"),
    ],
)
def test_declined(text: str, start: str, expected: str | None) -> None:
    document = load(Path("a.py"), text.encode())
    edits = wrap(document, statement(document, start), HEADER)
    if expected is None:
        assert not isinstance(edits, Declined)
    else:
        assert expected in reason(edits)


def test_magics_in_a_notebook_move_along() -> None:
    cell = "!pip list\n%time x = 1\nfor a in b:\n    !ls \"{a}\"\n    c = %time f('🙂')\n    e('''\n''')\n    d?\n# end"
    document = notebook("%%bash\nls", cell, "    # of another cell\nx = 2")
    edits = wrap(document, statement(document, "for"), HEADER)
    assert not isinstance(edits, Declined)
    assert {edit.span.cell for edit in edits} == {1}
    assert apply(cell, edits) == (
        "!pip list\n%time x = 1\nwith torch.no_grad():\n"
        "    for a in b:\n        !ls \"{a}\"\n        c = %time f('🙂')\n        e('''\n''')\n        d?\n# end"
    )


def test_magics_are_not_rewritten() -> None:
    document = notebook("if a:\n    !ls")
    added = cst.parse_statement("b()")
    magic = statement(document, "pass")
    assert "IPython" in reason(rewrite(document, magic, lambda node: added))
    assert "IPython" in reason(rewrite(document, magic, lambda node: [node, added]))
