"""Applying edits: exact places, no overlaps, the rest of the text untouched."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulint.edits import Overlap, apply, disjoint
from gpulint.fix import Edit, Fix, Safety
from gpulint.source import SourceText, Span

PATH = Path("a.py")


def edit(line: int, column: int, end_line: int, end_column: int, text: str, path: Path = PATH) -> Edit:
    return Edit(path, Span(line, column, end_line, end_column), text)


def fix(*edits: Edit) -> Fix:
    return Fix("does something", Safety.SAFE, edits)


def test_edits_are_applied_at_their_places_in_any_order() -> None:
    text = "f(a)\r\n\tg('é', b)  # c\r\n"
    edits = [edit(2, 9, 2, 10, "B"), edit(1, 4, 1, 4, ", x=1"), edit(2, 1, 2, 2, "    ")]
    assert apply(text, edits) == "f(a, x=1)\r\n    g('é', B)  # c\r\n"
    assert apply(text, reversed(edits)) == apply(text, edits)


def test_equal_edits_count_once_and_insertions_keep_their_order() -> None:
    one, two = edit(1, 1, 1, 1, "import a\n"), edit(1, 1, 1, 1, "import b\n")
    assert apply("x\n", [one, two, one]) == "import a\nimport b\nx\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb\nc", "x\r\ny\r\na\r\nx\ny\nb\nx\ny\nc"),
        ("a\rb\rc\r", "x\ry\ra\rx\ry\rb\rx\ry\rc\r"),
        ("a\nb\r\nc", "x\ny\na\nx\r\ny\r\nb\r\nx\r\ny\r\nc"),
    ],
)
def test_line_breaks_become_those_of_the_place(text: str, expected: str) -> None:
    assert apply(text, [edit(line, 1, line, 1, "x\ny\n") for line in (1, 2, 3)]) == expected
    assert apply("a", [edit(1, 2, 1, 2, "\nb\n")]) == "a\nb\n"
    assert apply("a\n", [edit(1, 2, 1, 2, "\r\nb")]) == "a\r\nb\n"


def test_lines_removed_one_below_the_other_leave_no_second_gap() -> None:
    first, second = edit(3, 1, 4, 1, ""), edit(4, 1, 5, 1, "")
    assert apply("a\n\nb\nc\n\nd\n", [first, second]) == "a\n\nd\n"
    assert apply("a\r\n\r\nb\r\nc\r\n\r\n\r\nd\r\n", [first, second]) == "a\r\n\r\n\r\nd\r\n"
    assert apply("a\nx\nb\nc\n\nd\n", [first, second]) == "a\nx\n\nd\n"
    assert apply("a\n\nb\nc\n\nd\n", [first, second, edit(5, 1, 5, 1, "e\n")]) == "a\n\ne\n\nd\n"
    assert apply("a\n\nb\nc\n", [first, second]) == "a\n\n"


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(Overlap):
        apply("abcdef", [edit(1, 1, 1, 4, "x"), edit(1, 3, 1, 5, "y")])


def test_disjoint_takes_what_fits_together() -> None:
    importing = edit(1, 1, 1, 1, "import a\n")
    first = fix(importing, edit(5, 1, 5, 4, "x"))
    touching = fix(edit(5, 4, 5, 6, "y"))
    inside = fix(edit(5, 2, 5, 3, "z"))
    same_import = fix(importing, edit(7, 1, 7, 1, "w"))
    same_place = fix(edit(7, 1, 7, 1, "v"))
    elsewhere = fix(edit(5, 2, 5, 3, "u", Path("b.py")))
    advice = Fix("read the manual", Safety.ADVICE)
    fixes = [first, touching, inside, same_import, same_place, elsewhere, advice]
    assert disjoint(fixes) == [first, touching, same_import, elsewhere]


@given(st.text(alphabet="ab\n\r\té漢🔥", max_size=40), st.data())
def test_text_outside_the_edits_is_unchanged(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2)))
    start, end = cuts
    span = SourceText(text).span(start, end)
    assert apply(text, [Edit(PATH, span, "NEW")]) == text[:start] + "NEW" + text[end:]
