"""Notebooks: Python of the code cells, shell lines and cells, places within cells."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from gpulint.documents.notebook import NotebookDocument


def read(*cells: str | list[str] | dict[str, Any], **metadata: Any) -> NotebookDocument:
    whole = [cell if isinstance(cell, dict) else {"cell_type": "code", "source": cell} for cell in cells]
    return NotebookDocument(Path("n.ipynb"), json.dumps({"cells": whole, "metadata": metadata, "nbformat": 4}))


def python(document: NotebookDocument) -> list[tuple[int | None, int, str]]:
    """(cell, line, code) of each statement but ``pass``."""
    module = document.python
    assert module is not None
    return [
        (module.span(node).cell, module.span(node).line, ast.unparse(node))
        for node in module.tree.body
        if not isinstance(node, ast.Pass)
    ]


def shell(document: NotebookDocument) -> list[tuple[int | None, int, int, str]]:
    """(cell, line, column, words) of each command."""
    return [
        (command.span.cell, command.span.line, command.span.column, " ".join(word.raw for word in command.words))
        for script in document.scripts
        for command in script.commands
    ]


def test_cells_count_all_cells_and_lines_count_within_the_cell() -> None:
    markdown = {"cell_type": "markdown", "source": "# Title"}
    document = read(markdown, ["import torch\n", "x = 1"], markdown, "y = 2\nz = 3")
    assert python(document) == [(1, 1, "import torch"), (1, 2, "x = 1"), (3, 1, "y = 2"), (3, 2, "z = 3")]


def test_columns_are_those_of_the_cell() -> None:
    document = read("a = 1", "é = '😀'; loader = DataLoader(x)")
    module = document.python
    assert module is not None
    span = module.span(module.tree.body[-1])
    assert (span.cell, span.line, span.column, span.end_column) == (1, 1, 10, 32)


def test_shell_lines_and_installing_magics() -> None:
    document = read(
        "import os\n!pip install torch\nif x:\n    !wget http://y\n%pip install a b\nfiles = !ls -l\n%conda install c"
    )
    assert shell(document) == [
        (0, 2, 2, "pip install torch"),
        (0, 4, 6, "wget http://y"),
        (0, 5, 2, "pip install a b"),
        (0, 6, 10, "ls -l"),
        (0, 7, 2, "conda install c"),
    ]
    assert [(line, code) for _, line, code in python(document)] == [
        (1, "import os"),
        (3, "if x:\n    pass"),
        (6, "files = get_ipython()"),
    ]


def test_shell_cell() -> None:
    document = read("x = 1", "%%bash\ncd a\npython train.py", "%%script bash --no-raise-error\nmake")
    assert shell(document) == [(1, 2, 1, "cd a"), (1, 3, 1, "python train.py"), (2, 2, 1, "make")]
    assert python(document) == [(0, 1, "x = 1")]


@pytest.mark.parametrize("magic", ["%%time", "%%capture out", "%%timeit -n 3"])
def test_python_cell_magics_keep_their_body(magic: str) -> None:
    document = read(f"{magic}\nx = 1\n!pip install y")
    assert python(document) == [(0, 2, "x = 1")]
    assert shell(document) == [(0, 3, 2, "pip install y")]


@pytest.mark.parametrize("magic", ["%%writefile a.py", "%%html", "%%javascript", "%%R"])
def test_bodies_of_other_cell_magics_are_no_code(magic: str) -> None:
    document = read(f"{magic}\nimport torch\n!pip install x", "y = 1")
    assert python(document) == [(1, 1, "y = 1")]
    assert shell(document) == []


@pytest.mark.parametrize(
    "line", ["%matplotlib inline", "model?", "?model", "model.fit??", "%load_ext x", "!ls \\\n  -l"]
)
def test_other_magics_leave_the_rest_alone(line: str) -> None:
    assert [code for *_, code in python(read(f"a = 1\n{line}\nb = 2"))] == ["a = 1", "b = 2"]


def test_timed_statement_keeps_its_columns() -> None:
    document = read("%time fit(model)")
    module = document.python
    assert module is not None
    call = module.tree.body[-1]
    assert (ast.unparse(call), module.span(call).column) == ("fit(model)", 7)


def test_environment_magic_sets_the_environment() -> None:
    assert python(read("%env CUDA_VISIBLE_DEVICES=0"))[-1] == (0, 1, "os.environ['CUDA_VISIBLE_DEVICES'] = '0'")


def test_marks_within_strings_and_brackets_are_python() -> None:
    cell = 's = """\n!pip install x\n%time\n"""\ny = (10\n  % 3)\n!ls'
    document = read(cell)
    assert [code for *_, code in python(document)] == ["s = '\\n!pip install x\\n%time\\n'", "y = 10 % 3"]
    assert shell(document) == [(0, 7, 2, "ls")]


def test_top_level_await() -> None:
    assert python(read("await main()\nasync with a as b:\n    pass"))[0] == (0, 1, "await main()")


def test_broken_cell_is_named_and_the_others_survive() -> None:
    document = read("x = 1", "y = 2\nprint 'old'", "z = 3")
    assert [cell for cell, *_ in python(document)] == [0, 2]
    ((problem),) = document.problems
    assert problem.message.startswith("cell 1, line 2: syntax error")
    assert problem.line == 2


@pytest.mark.parametrize(("text", "line", "column"), [("{", 1, 2), ('{\n "cells": [}', 2, 12), ("[]", 1, 1)])
def test_broken_notebook_is_one_placed_problem(text: str, line: int, column: int) -> None:
    document = NotebookDocument(Path("n.ipynb"), text)
    assert document.python is None
    assert document.scripts == ()
    assert [(problem.line, problem.column) for problem in document.problems] == [(line, column)]


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"cells": None},
        {"cells": [1, None, {"cell_type": "code"}, {"cell_type": "code", "source": 3}]},
        {"metadata": [], "worksheets": [0]},
    ],
)
def test_odd_notebooks_never_raise(content: object) -> None:
    document = NotebookDocument(Path("n.ipynb"), json.dumps(content))
    assert document.python is None
    assert document.scripts == ()


def test_format_3_worksheets() -> None:
    sheets = [
        {"cells": [{"cell_type": "code", "input": ["a = 1"]}]},
        {"cells": [{"cell_type": "code", "input": "b = 2"}]},
    ]
    document = NotebookDocument(Path("n.ipynb"), json.dumps({"worksheets": sheets, "nbformat": 3}))
    assert python(document) == [(0, 1, "a = 1"), (1, 1, "b = 2")]


@pytest.mark.parametrize("metadata", [{"kernelspec": {"language": "R"}}, {"language_info": {"name": "julia"}}])
def test_other_languages_have_no_python(metadata: dict[str, Any]) -> None:
    document = read("x <- 1", **metadata)
    assert document.python is None
    assert document.problems == []


def test_carriage_returns_do_not_move_lines() -> None:
    assert python(read("a = 1\r\n!ls\r\nb = 2")) == [(0, 1, "a = 1"), (0, 3, "b = 2")]
