"""Files with a merge conflict are told as such, in each language."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpulint.documents.base import Document
from gpulint.documents.conflicts import conflict_line
from gpulint.documents.jobspec import JobSpecDocument
from gpulint.documents.notebook import NotebookDocument
from gpulint.documents.python import PythonDocument
from gpulint.documents.shell.document import ShellDocument

CONFLICT = """\
<<<<<<< HEAD
{ours}
=======
{theirs}
>>>>>>> 4a5e1eb4f2f4
"""
CELL = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
NOTEBOOK = json.dumps({"cells": [{**CELL, "source": "x = 1\n" + CONFLICT.format(ours="a = 1", theirs="a = 2")}]})


def problems(document: Document) -> list[tuple[str, int | None]]:
    assert document.python is None or document.kind.name == "NOTEBOOK"
    assert document.scripts is not None and document.tasks is not None
    return [(problem.message, problem.line) for problem in document.problems]


@pytest.mark.parametrize(
    ("kind", "text", "line"),
    [
        (PythonDocument, "import torch\n" + CONFLICT.format(ours="rate = 0.1", theirs="rate = 0.2"), 2),
        (PythonDocument, CONFLICT.format(ours="rate = 0.1", theirs="rate = 0.2").replace("\n", "\r\n"), 1),
        (ShellDocument, "#!/bin/bash\n" + CONFLICT.format(ours="python a.py", theirs="python b.py"), 2),
        (NotebookDocument, '{"cells": [\n' + CONFLICT.format(ours="1", theirs="2") + "]}", 2),
        (
            JobSpecDocument,
            "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n      - name: train\n"
            + CONFLICT.format(ours="        image: a", theirs="        image: b")
            + "        command: [python, train.py]\n        resources: {limits: {nvidia.com/gpu: 1}}\n",
            8,
        ),
    ],
)
def test_the_first_marker_is_named(kind: Callable[[Path, str], Document], text: str, line: int) -> None:
    assert problems(kind(Path("file"), text)) == [("unresolved merge conflict", line)]


def test_a_cell_is_named_with_its_line() -> None:
    found = problems(NotebookDocument(Path("n.ipynb"), NOTEBOOK))
    assert found == [("cell 0, line 2: unresolved merge conflict", 2)]


def test_other_errors_keep_their_message() -> None:
    underlined = "Title\n=======\nx = 1 +\n"
    assert problems(PythonDocument(Path("a.py"), underlined))[0][0].startswith("syntax error: ")
    assert conflict_line("<<<<<<< HEAD\na\n") is None
    assert conflict_line("cat <<<<<<< HEAD\n=======\n>>>>>>> b\n") is None
