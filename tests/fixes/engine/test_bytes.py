"""Files keep every byte that no edit touches, whatever way they are written down."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any

import pytest

from tests.fixes.engine.conftest import replacing

LATIN = "# coding: latin-1\nx = 'é', WASTE  # é\n".encode("latin-1")
FORMS = {
    "latin-1 cookie": LATIN,
    "cookie in the second line, CRLF": b"#!/usr/bin/python\r\n" + LATIN.replace(b"\n", b"\r\n"),
    "koi8-r": "# -*- coding: koi8-r -*-\nx = 'я', WASTE\n".encode("koi8-r"),
    "shift_jis": "# vim: fileencoding=shift_jis\nx = '表', WASTE\n".encode("shift_jis"),
    "no encoding that fits": b"# caf\xe9 \xff\nx = WASTE\n",
    "UTF-8 with a byte order mark": codecs.BOM_UTF8 + "x = 'é', WASTE\n".encode(),
    "byte order mark and cookie": codecs.BOM_UTF8 + "# coding: utf-8\nx = WASTE, 'é'\n".encode(),
    "UTF-16, little end first": codecs.BOM_UTF16_LE + "x = '🔥', WASTE\r\n".encode("utf-16-le"),
    "UTF-16, big end first": codecs.BOM_UTF16_BE + "x = '🔥', WASTE\n".encode("utf-16-be"),
    "CRLF": b"x = 1\r\nWASTE\r\n",
    "CR": b"x = 1\rWASTE\ry = 2\r",
    "mixed line endings": b"x = 1\rWASTE\r\ny = 2\nWASTE\r\r\n",
    "no last newline": b"x = 1\nWASTE",
    "blanks at the end": b"WASTE \t \n\n\n   ",
    "tabs and form feeds": b"if x:\n\tWASTE\n\x0c\ndef f():\n\f\treturn WASTE\n",
    "other line separators": "x = '\u2028', '\x85'; WASTE\n".encode(),
    "backslashes": b"x = 1 + \\\n  WASTE + \\\r\n\t2\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_only_the_edit_changes(fix: Any, tree: Path, form: str) -> None:
    data = FORMS[form]
    (tree / "a.py").write_bytes(data)
    assert fix("--apply")[0] == 0
    now = (tree / "a.py").read_bytes()
    if "UTF-16" in form:
        codec = "utf-16-le" if "little" in form else "utf-16-be"
        assert now == data.replace("WASTE".encode(codec), "FIXED".encode(codec))
    else:
        assert now == data.replace(b"WASTE", b"FIXED")


def test_text_that_the_encoding_lacks(fix: Any, repairs: Any, tree: Path) -> None:
    repairs["TST101"] = replacing("'漢'")
    (tree / "a.py").write_bytes(LATIN)
    (tree / "b.py").write_bytes(b"WASTE\n")
    code, _, err = fix("--apply")
    assert code == 1
    assert err == "a.py:2:10: TST101 was not fixed: the new text of a.py cannot be written in its encoding latin-1\n"
    assert (tree / "a.py").read_bytes() == LATIN
    assert (tree / "b.py").read_text(encoding="utf-8") == "'漢'\n"


def test_bytes_that_could_not_be_kept(fix: Any, tree: Path) -> None:
    """Two byte sequences of ISO 2022 mean one text, so that writing the text back would change bytes."""
    data = b"# coding: iso2022_jp\nx = WASTE # \x1b(B\n"
    assert data.decode("iso2022_jp").encode("iso2022_jp") != data
    (tree / "a.py").write_bytes(data)
    code, _, err = fix("--apply")
    assert code == 1
    assert "a.py is not regular iso2022_jp text" in err
    assert (tree / "a.py").read_bytes() == data
