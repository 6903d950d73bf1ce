"""Notebooks as the JSON that they are: where in it the text of each cell stands."""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

from gpulint import regex
from gpulint.source import Fragment, SourceText

_ESCAPE = regex.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)


class _Placed(str):
    """A string of the JSON text that knows the offset of its first character there."""

    start: int


class _Decoder(json.JSONDecoder):
    def __init__(self) -> None:
        super().__init__(strict=False)
        self.parse_string = _placed
        self.scan_once = py_make_scanner(self)


def _placed(text: str, start: int, strict: bool = False) -> tuple[_Placed, int]:
    value, end = scanstring(text, start, strict)
    placed = _Placed(value)
    placed.start = start
    return placed, end


def fragments(source: SourceText) -> list[Fragment]:
    """The source of every cell of a notebook (format 4 or 5) with its way back; none if it cannot be read."""
    try:
        content = _Decoder().decode(source.text)
    except (ValueError, RecursionError):
        return []
    cells = content.get("cells") if isinstance(content, dict) else None
    return [_fragment(cell, source) for cell in cells] if isinstance(cells, list) else []


def _fragment(cell: Any, owner: SourceText) -> Fragment:
    raw = cell.get("source", "") if isinstance(cell, dict) else ""
    parts = [part for part in (raw if isinstance(raw, list) else [raw]) if isinstance(part, _Placed)]
    pieces: list[tuple[int, int]] = []
    done = 0
    for part in parts:
        pieces.append((done, part.start))
        at, here = part.start, done
        while (match := _ESCAPE.search(owner.text, at)) is not None and (
            behind := here + match.start() - at
        ) < done + len(part):
            here, at = behind + 1, match.end()
            pieces += [(behind, match.start()), (here, at)]
        done += len(part)
    return Fragment("".join(parts), owner, tuple(pieces) or ((0, 0),))
