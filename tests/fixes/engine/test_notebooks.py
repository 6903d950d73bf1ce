"""Notebooks: only the sources of cells change, in the JSON's own style."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulint.documents.notebook import NotebookDocument
from gpulint.documents.notebook_text import replace_sources

HEAD = '{"nbformat": 4, "metadata": {"x": 1e5, "x": [ ]}, "cells":\t[ {"source": ["# T\\u00e9xt"], "cell_type": "markdown"},'
TAIL = ', "metadata": {}, "outputs": [{"data": {"image/png": "iVBOR\\/w0K\\n"}}], "execution_count": null } ] }\n'

STYLES = {
    "a list": ('["import x\\n", "WASTE\\n",\n "y = 1"]', '["import x\\n", "FIXED\\n",\n "y = 1"]'),
    "one line": ('["WASTE"]', '["FIXED"]'),
    "a string": ('"import x\\nWASTE\\ny = 1"', '"import x\\nFIXED\\ny = 1"'),
    "indented": (
        '[\n    "x = \'\\u00e9\'\\n",\r\n    "WASTE"\n   ]',
        '[\n    "x = \'\\u00e9\'\\n",\r\n    "FIXED"\n   ]',
    ),
    "escapes": ('["WASTE # \\u00e9\\n", "\\u0061 = \'\\/\'"]', '["FIXED # \\u00e9\\n", "\\u0061 = \'\\/\'"]'),
    "carriage returns": ('"x = 1\\r\\nWASTE\\r\\n"', '"x = 1\\r\\nFIXED\\r\\n"'),
    "lines in pieces": ('["x = 1\\nWAS", "TE"]', '["x = 1\\nFIXED"]'),
    "one piece": ('["x = 1\\nWASTE\\ny = \\u0061\\n"]', '["x = 1\\nFIXED\\ny = \\u0061\\n"]'),
    "pieces of several lines": (
        '["import x\\nx =", " 1\\n","WASTE\\ny = 1\\n", "", "z = 1\\n", ""]',
        '["import x\\nx =", " 1\\n","FIXED\\ny = 1\\n", "", "z = 1\\n", ""]',
    ),
    "magics": (
        '["!pip list\\n", "%time WASTE\\n", "x = %time WASTE"]',
        '["!pip list\\n", "%time FIXED\\n", "x = %time FIXED"]',
    ),
    "shell": ('["%%bash\\n", "echo WASTE"]', '["%%bash\\n", "echo FIXED"]'),
}


@pytest.mark.parametrize("style", STYLES)
def test_sources_keep_their_style(fix: Any, tree: Path, style: str) -> None:
    was, becomes = STYLES[style]
    text = HEAD + ' {"cell_type": "code", "source" : ' + was + TAIL
    (tree / "a.ipynb").write_text(text, newline="")
    assert fix("--apply")[0] == 0
    assert (tree / "a.ipynb").read_bytes().decode() == text.replace(was, becomes)


def test_characters_as_they_are(fix: Any, tree: Path) -> None:
    text = '{"cells": [{"cell_type": "code", "source": ["x = \'é🔥\', WASTE"]}]}'
    (tree / "a.ipynb").write_text(text, encoding="utf-8")
    fix("--apply")
    assert (tree / "a.ipynb").read_text(encoding="utf-8") == text.replace("WASTE", "FIXED")


def test_old_format(fix: Any, tree: Path) -> None:
    text = (
        '{"worksheets": [{"cells": [{"cell_type": "code", "input": ["WASTE"], "language": "python"}]}], "nbformat": 3}'
    )
    (tree / "a.ipynb").write_text(text)
    fix("--apply")
    assert (tree / "a.ipynb").read_text() == text.replace("WASTE", "FIXED")


SOURCES = st.text(alphabet="ab'\"\\\n\r\té漢🔥\u2028\x0c/", max_size=30)


@given(
    st.lists(
        st.tuples(st.lists(SOURCES, max_size=4), st.sampled_from(["lines", "pieces", "text"])), min_size=1, max_size=4
    ),
    st.data(),
    st.booleans(),
    st.sampled_from([None, 1, "\t"]),
)
def test_any_source_is_replaced_and_nothing_else(
    cells: list[tuple[list[str], str]], data: st.DataObject, ascii_only: bool, indent: Any
) -> None:
    listed = [
        {
            "cell_type": "code",
            "outputs": [{"text": ["é", "\\/"]}],
            "source": {"lines": "".join(pieces).splitlines(keepends=True), "pieces": pieces, "text": "".join(pieces)}[
                how
            ],
        }
        for pieces, how in cells
    ]
    content: Any = {"metadata": {"cells": [{"source": "no cell"}]}, "cells": listed}
    text = json.dumps(content, ensure_ascii=ascii_only, indent=indent)
    index = data.draw(st.integers(0, len(cells) - 1))
    new = data.draw(SOURCES)
    changed = replace_sources(text, {index: new})
    expected = [new if number == index else "".join(pieces) for number, (pieces, _) in enumerate(cells)]
    document = NotebookDocument(Path("a.ipynb"), changed)
    assert [cell.source.text for cell in document.cells] == expected
    after = json.loads(changed)
    assert type(after["cells"][index]["source"]) is type(listed[index]["source"])
    after["cells"][index]["source"] = listed[index]["source"]
    assert after == content
