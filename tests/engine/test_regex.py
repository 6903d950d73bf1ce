"""Searches of long texts by the words in an expression find what the expression finds."""

from __future__ import annotations

import importlib
import random
import re
from pathlib import Path

import pytest

import gpulint
from gpulint import regex

ROOT = Path(gpulint.__file__).parent
TEXTS = [path.read_text() for folder in ("assessment", "semantic") for path in sorted((ROOT / folder).glob("*.py"))]


def patterns() -> list[re.Pattern[str]]:
    """The expressions on text that modules of gpulint define."""
    found = []
    for name in (
        "assessment.amounts",
        "assessment.sample_kinds",
        "semantic.operating_systems",
        "programs.evaluation_programs",
        "workload.small_batches",
    ):
        module = importlib.import_module(f"gpulint.{name}")
        found += [one for one in vars(module).values() if isinstance(getattr(one, "pattern", None), str)]
    return found


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\bvolatile\s*=", "a volatile = b", True),
        (r"\bvolatile\s*=", "volatiles = 1", False),
        (r"\.data(\.cpu\(\))?\[0\]", "x.data[0]", True),
        (r"(abc|def)+x", "defx", True),
        (r"(abc|def)*x", "x", True),
        (r"(abc|d)x", "dx", True),
        (r"(abc)?x", "x", True),
        (r"(?=abc)a", "abc", True),
        (r"(?!abc)x", "x", True),
        (r"(?<!abc)x", "x", True),
        (r"(?i:abc)", "ABC", True),
        (r"(?i)abc", "ABC", True),
        (r"[abc]{3}", "cab", True),
        (r"ab\bc|a\.bc", "a.bc", True),
        (r"abc{2}", "abcc", True),
        (r"abc{0}", "ab", True),
        (r"(abc)\1", "abcabc", True),
        (r"os\.name|os_name", "os_name", True),
        (r"(?x) abc  # def", "abc", True),
    ],
)
def test_occurs_as_search(pattern: str, text: str, found: bool) -> None:
    assert regex.occurs(regex.compile(pattern), text) == (re.search(pattern, text) is not None) == found


def test_occurs_as_search_in_real_texts() -> None:
    chance, used = random.Random(1), patterns()
    assert len(used) > 10
    for pattern in used:
        for text in TEXTS:
            start = chance.randrange(len(text))
            part = text[start : start + 3000]
            assert regex.occurs(pattern, part) == (pattern.search(part) is not None), pattern.pattern


def test_texts_without_the_words_are_not_searched() -> None:
    class Pattern:
        pattern, flags = r"abc\d|def(x|y)", 0

        def search(self, text: str) -> None:
            raise AssertionError("searched")

    assert not regex.occurs(Pattern(), "ab cd de f")  # type: ignore[arg-type]
