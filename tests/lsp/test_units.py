"""The pieces between the protocol and gpulint: units of positions, texts under change, notebooks as JSON, settings."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from gpulint.config import Config
from gpulint.documents.base import decode
from gpulint.documents.notebook_places import fragments
from gpulint.engine import Result
from gpulint.impact import Impact, Level
from gpulint.lsp.buffers import Buffer, encoded
from gpulint.lsp.diagnostics import diagnostic, hover
from gpulint.lsp.places import Places
from gpulint.lsp.positions import Positions
from gpulint.lsp.settings import read
from gpulint.project import Project
from gpulint.source import SourceText, Span
from gpulint.suppress import UNUSED_IGNORE

ENCODINGS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
SIZES = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
TEXTS = st.text(st.sampled_from("ab \n\r\té漢😀\x0c\u2028\x85"), max_size=30)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=TEXTS, data=st.data())
def test_places_survive_the_way_to_the_editor_and_back(encoding, text, data):
    source, positions = SourceText(text), Positions(encoding)
    offset = data.draw(st.integers(0, len(text)))
    line, column = source.position(offset)
    place = positions.position(source, line, column)
    before = source.line(line)[: column - 1]
    assert place.character == len(before.encode(ENCODINGS[encoding])) // SIZES[encoding]
    if column - 1 <= len(source.line(line)):  # an offset between \r and \n has no place of its own
        assert positions.offset(source, place) == offset


def changed(text, *changes):
    buffer = Buffer("file:///a.py", 1, SourceText(text))
    buffer.change(
        [
            types.TextDocumentContentChangePartial(
                range=types.Range(types.Position(*start), types.Position(*end)), text=new
            )
            for start, end, new in changes
        ],
        2,
        Positions(),
    )
    return buffer.source.text


@pytest.mark.parametrize(
    ("text", "start", "end", "new", "expected"),
    [
        ("ab\ncd\n", (1, 1), (1, 2), "X", "ab\ncX\n"),
        ("ab\ncd\n", (2, 0), (2, 0), "ef", "ab\ncd\nef"),
        ("ab\ncd", (1, 0), (9, 0), "", "ab\n"),
        ("ab\ncd", (0, 99), (0, 99), "!", "ab!\ncd"),
        ("a😀b\n", (0, 3), (0, 4), "X", "a😀X\n"),
        ("a\x0cb\u2028c\nd", (1, 0), (1, 1), "X", "a\x0cb\u2028c\nX"),
        ("a\r\nb\rc", (2, 0), (2, 1), "X", "a\r\nb\rX"),
        ("", (0, 0), (0, 0), "new", "new"),
        ("a\r\nb", (0, 1), (0, 99), "X", "aX\r\nb"),
    ],
)
def test_changes_of_a_text(text, start, end, new, expected):
    assert changed(text, (start, end, new)) == expected


def test_each_change_counts_in_the_outcome_of_the_one_before():
    assert changed("abc", ((0, 0), (0, 1), "xyz"), ((0, 3), (0, 4), "")) == "xyzc"


@given(text=TEXTS, start=st.integers(0, 30), end=st.integers(0, 30), new=TEXTS)
def test_a_change_replaces_what_stands_between_its_places(text, start, end, new):
    source, positions = SourceText(text), Positions()
    start, end = sorted((min(start, len(text)), min(end, len(text))))
    places = [positions.position(source, *source.position(offset)) for offset in (start, end)]
    if [positions.offset(source, place) for place in places] != [start, end]:
        return  # inside of \r\n
    buffer = Buffer("file:///a.py", 1, source)
    buffer.change([types.TextDocumentContentChangePartial(range=types.Range(*places), text=new)], 2, positions)
    assert buffer.source.text == text[:start] + new + text[end:]


@pytest.mark.parametrize("text", ["x = 1\n", "# coding: latin-1\nx = 'é'\n", "漢", ""])
def test_a_text_is_read_as_the_editor_shows_it(text):
    assert decode(encoded(text))[0] == text


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("as_list", [True, False])
def test_places_of_cells_inside_the_json(ascii_only, indent, as_list):
    cells = ['x = "a\\tb"\ny = "😀漢"\n', "", "z = 1"]
    sources = [cell.splitlines(keepends=True) if as_list else cell for cell in cells]
    raw = json.dumps(
        {"cells": [{"cell_type": "code", "source": source} for source in sources], "metadata": {}},
        ensure_ascii=ascii_only,
        indent=indent,
    )
    found = fragments(SourceText(raw))
    assert [fragment.text for fragment in found] == cells
    for cell, fragment in enumerate(found):
        for offset, char in enumerate(cells[cell]):
            written = json.dumps(char, ensure_ascii=ascii_only)[1:-1]
            assert raw.startswith(written, fragment.owner_offset(offset))
        if cells[cell]:
            assert raw[fragment.owner_offset(len(cells[cell]))] == '"'


@pytest.mark.parametrize("raw", ["", "[]", "{", '{"cells": 3}', '{"cells": [3, {"source": 3}]}', "[" * 5000])
def test_broken_notebooks_have_no_places(raw):
    assert "".join(fragment.text for fragment in fragments(SourceText(raw))) == ""


def test_settings_are_options_of_scan():
    given = {"select": ["GPU3", "data"], "ignore": [], "severity": "warning", "unsafeFixes": False, "config": None}
    settings = read({"gpulint": given})
    assert settings == read(given)
    assert settings.options == ("--select=GPU3,data", "--severity=warning")
    assert settings.unsafe_fixes is False and settings.syntax_errors is True
    assert settings.complaints == ()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"selct": ["GPU3"]}, "gpulint.selct: unknown setting; did you mean 'select'?"),
        ({"select": "GPU3"}, "gpulint.select: not a valid value: 'GPU3'"),
        ({"severity": "loud"}, "gpulint.severity: not a valid value: 'loud'"),
        ({"unsafeFixes": "yes"}, "gpulint.unsafeFixes: must be true or false"),
    ],
)
def test_wrong_settings_are_named_and_have_no_effect(given, complaint):
    settings = read(given)
    assert settings.complaints == (complaint,)
    assert settings.options == ()


@pytest.mark.parametrize("given", [None, [], "x", 3, {"gpulint": None}])
def test_settings_of_another_shape_do_no_harm(given):
    assert read(given).options == ()


def test_a_span_in_other_units():
    source = SourceText("漢😀 = loader\n")
    where = Positions("utf-16").range(source, Span(1, 6, 1, 12))
    assert (where.start.character, where.end.character) == (6, 12)
    where = Positions("utf-8").range(source, Span(1, 6, 1, 12))
    assert (where.start.character, where.end.character) == (10, 16)


SNIPPET = "Read it once in __init__ (*not* in `__getitem__`):\nself.rows = load(path)\nreturn self.rows[index]"


@pytest.fixture
def several_lines(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("def f(x):\n    return x\n\nf(1)\n")
    return UNUSED_IGNORE.finding(path, Span(1, 1, 3, 1), "__getitem__ reads <files>", help=SNIPPET)


def test_a_diagnostic_is_about_one_line_and_says_no_more_than_two(several_lines):
    project = Project(several_lines.path.parent, [several_lines.path], Config(base=several_lines.path.parent))
    places = Places(project, {}, Positions())
    made = diagnostic(several_lines, places, related=False)
    assert made.range == types.Range(types.Position(0, 0), types.Position(0, len("def f(x):")))
    assert made.message == "__getitem__ reads <files>\nRead it once in __init__ (*not* in `__getitem__`):"


def test_low_impact_is_a_hint_and_a_hover_tells_it(several_lines):
    project = Project(several_lines.path.parent, [several_lines.path], Config(base=several_lines.path.parent))
    places = Places(project, {}, Positions())
    severities = {}
    for level in Level:
        found = replace(several_lines, impact=Impact(level, "once per run"))
        severities[level] = diagnostic(found, places, related=False).severity
        assert f"*{level} impact: once per run*" in hover(Result(found))
    assert severities == {
        Level.LOW: types.DiagnosticSeverity.Hint,
        Level.MEDIUM: types.DiagnosticSeverity.Warning,
        Level.HIGH: types.DiagnosticSeverity.Warning,
    }
    assert "impact" not in hover(Result(several_lines))


def test_a_hover_is_markdown(several_lines):
    text = hover(Result(several_lines))
    assert r"\_\_getitem\_\_ reads \<files\>" in text
    assert r"Read it once in \_\_init\_\_ (\*not\* in `__getitem__`):" in text
    assert "```\nself.rows = load(path)\nreturn self.rows[index]\n```" in text
