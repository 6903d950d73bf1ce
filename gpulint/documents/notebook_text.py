"""Changing cells in a notebook's own JSON text, so that every byte outside of their sources stays as it was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from itertools import pairwise

_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder(parse_int=str)  # numbers are not asked for, and a long one would be refused
_PIECES = re.compile(r'\\u[0-9a-fA-F]{4}|\\.|[^"\\]', re.DOTALL)


def replace_sources(text: str, sources: Mapping[int, str]) -> str:
    """The notebook ``text`` with new sources for some cells (by index, counting all cells from 0).

    A source that is a list of lines stays one, a string stays a string; lines that do not change keep their
    escapes, new ones are escaped as the rest of the notebook is.

    Raises:
        ValueError: no JSON, no such cell, or one whose source is no text.
    """
    places = list(_sources(text))
    ascii_only = text.isascii() and re.search(r"\\u(?!00[01])[0-9a-fA-F]{4}", text) is not None
    parts, at = [], 0
    for index, new in sorted(sources.items()):
        if index >= len(places) or (place := places[index]) is None:
            raise ValueError(f"cell {index} has no source")
        start, end = place
        parts += [text[at:start], _rewritten(text[start:end], new, ascii_only)]
        at = end
    return "".join(parts) + text[at:]


def _rewritten(raw: str, new: str, ascii_only: bool) -> str:
    """JSON of the source ``new`` in the manner of ``raw``, the JSON of the old one."""
    if raw.startswith("["):
        items = [raw[start:end] for start, end in _items(raw, 0)]
        if not all(item.startswith('"') for item in items):
            raise ValueError("the cell's source holds something that is no text")
        between = _separator(raw)
        first, last = raw[: raw.index('"')] if items else "[", raw[raw.rindex('"') + 1 :] if items else "]"
        return first + between.join(_lines([item[1:-1] for item in items], new, ascii_only, quoted=True)) + last
    if not raw.startswith('"'):
        raise ValueError("the cell's source is no text")
    return f'"{"".join(_lines(_split(raw[1:-1]), new, ascii_only, quoted=False))}"'


def _lines(old: list[str], new: str, ascii_only: bool, *, quoted: bool) -> list[str]:
    """The lines of ``new`` as JSON; those of ``old`` (JSON without quotes) that did not change as they are."""
    was = [json.loads(f'"{line}"', strict=False) for line in old]
    now = new.splitlines(keepends=True)
    found: list[str] = []
    for tag, start, end, begin, stop in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        if tag == "equal":
            found += old[start:end]
        else:
            found += [json.dumps(line, ensure_ascii=ascii_only)[1:-1] for line in now[begin:stop]]
    return [f'"{line}"' for line in found] if quoted else found


def _split(raw: str) -> list[str]:
    """JSON of a string, without quotes, cut into the lines of the string."""
    pieces = _PIECES.findall(raw)
    lines, line = [], ""
    for piece, following in pairwise([*pieces, ""]):
        line += piece
        if piece in ("\\n", "\\u000a", "\\u000A") or (piece == "\\r" and following != "\\n"):
            lines.append(line)
            line = ""
    return [*lines, line] if line else lines


def _separator(raw: str) -> str:
    """What stands between two items of the list ``raw``."""
    spans = list(_items(raw, 0))
    if len(spans) > 1:
        return raw[spans[0][1] : spans[1][0]]
    blank = raw[1 : spans[0][0]] if spans else ""
    return f",{blank}" if blank.strip(" ") else ", "


# -- Where things are in JSON text: (start, end) character offsets -----------------------------------------------------


def _sources(text: str) -> Iterator[tuple[int, int] | None]:
    """Source of every cell, as ``NotebookDocument.cells`` counts them; None for a cell without one."""
    top = _members(text, _skip(text, 0))
    sheets = top.get("worksheets")
    listed = sheets is not None and text[sheets[0]] == "[" and "cells" not in top
    holders = [_members(text, start) for start, _ in _items(text, sheets[0])] if listed and sheets else [top]
    for holder in holders:
        cells = holder.get("cells")
        for start, _ in _items(text, cells[0]) if cells is not None else ():
            members = _members(text, start)
            yield members.get("source", members.get("input"))


def _members(text: str, at: int) -> dict[str, tuple[int, int]]:
    """Values of the object at ``at`` by key; of a key that is given twice the last, as ``json`` has it."""
    found: dict[str, tuple[int, int]] = {}
    if text[at] != "{":
        return found
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        end = _DECODER.raw_decode(text, at)[1]
        found[key] = at, end
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


def _items(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Items of the list at ``at``; none if there is no list."""
    if text[at] != "[":
        return
    at = _skip(text, at + 1)
    while text[at] != "]":
        end = _DECODER.raw_decode(text, at)[1]
        yield at, end
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    """The first offset from ``at`` on that holds no blank."""
    match = _BLANK.match(text, at)
    assert match is not None
    return match.end()
