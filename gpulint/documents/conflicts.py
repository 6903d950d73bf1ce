"""Files with a merge conflict that nobody has resolved, which makes them unreadable."""

from __future__ import annotations

import re

from gpulint import regex

UNRESOLVED = "unresolved merge conflict"
_OURS = regex.compile(r"^<{7}(?: .*)?\r?$", re.MULTILINE)
_BETWEEN = regex.compile(r"^={7}\r?$", re.MULTILINE)
_THEIRS = regex.compile(r"^>{7}(?: .*)?\r?$", re.MULTILINE)
"""The lines that Git writes around both versions, and between them."""


def conflict_line(text: str) -> int | None:
    """Return the line of the first conflict's first marker; None without all of its markers."""
    if "<<<<<<<" not in text or (ours := _OURS.search(text)) is None:
        return None
    between = _BETWEEN.search(text, ours.end())
    if between is None or _THEIRS.search(text, between.end()) is None:
        return None
    return text.count("\n", 0, ours.start()) + 1
