"""What a line of a program calls, read from its source."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from pathlib import Path

from gpulint import regex

_LARGEST_SOURCE = 2_000_000
_LAST_NAME = regex.compile(r"((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)\s*$")
_WITH = regex.compile(r"\s*(?:async\s+)?with\b")
_ENTERED = regex.compile(r"\s*(?:async\s+)?with\s+((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)\s*[:,]")
_CALLED = regex.compile(r"((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)\s*\(")


def called(file: str, place: Sequence[int | None]) -> str:
    """The name that is called at a place of a file, with its dots as far as they go: ``np.mean``; empty where that is
    not known, and where no call is made. A with statement calls ``__enter__`` of what is not a call itself.

    ``place`` is (line, last line, column, end column) of a call's expression, columns in bytes of UTF-8; or a line
    alone, of which the names of all calls are given, separated by spaces.
    """
    line = place[0]
    if not line or not _is_source(file):
        return ""
    if len(place) == 4 and None not in place:
        return _called_at(file, [number or 0 for number in place])
    text = linecache.getline(file, line)
    entered = _ENTERED.match(text)
    return " ".join(_CALLED.findall(text)) or (f"{entered[1]}.__enter__" if entered else "")


def _called_at(file: str, place: Sequence[int]) -> str:
    first, last, column, end = place
    lines = [linecache.getline(file, number).encode() for number in range(first, min(last, first + 20) + 1)]
    if not lines:
        return ""
    enters = _WITH.match(lines[0][:column].decode("utf-8", "replace"))
    if last == first:
        lines[0] = lines[0][:end]
    lines[0] = lines[0][column:]
    if last > first and len(lines) == last - first + 1:
        lines[-1] = lines[-1][:end]
    text = b"".join(lines).decode("utf-8", "replace").rstrip()
    if _WITH.match(text):  # of the whole statement, by Python 3.11
        entered = _ENTERED.match(text)
        return f"{entered[1]}.__enter__" if entered else ""
    if enters and (name := _LAST_NAME.fullmatch(text)):
        return f"{name[1]}.__enter__"
    if not text.endswith(")"):
        return ""
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[index], 0)
        if depth == 0:
            found = _LAST_NAME.search(text[:index])
            return found[1] if found else ""
    return ""


def _is_source(file: str) -> bool:
    """Return whether this is a source file of reasonable size. Looks at the file once."""
    try:
        return file.endswith(".py") and Path(file).stat().st_size <= _LARGEST_SOURCE
    except OSError:
        return False
