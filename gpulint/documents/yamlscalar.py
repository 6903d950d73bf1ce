"""Where each character of a YAML scalar's value stands in the file: folding, indentation and escapes undone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpulint import regex

Pieces = list[tuple[int, int]]

_BREAK = regex.compile("\r\n|[\n\r\x85\u2028\u2029]")
_BLANKS = regex.compile("[ \t\n\r\x85\u2028\u2029]+")
_PROPERTY = regex.compile(r"(?:[&!][^\s\[\]{},]*[ \t]*(?:\r\n|[\n\r])?[ \t]*)+")
_BLOCK_HEADER = regex.compile(r"[|>]([+-]?)([1-9]?)[+-]?[^\n\r\x85\u2028\u2029]*")
_DOUBLE_RUN = regex.compile("[^\\\\ \t\n\r\x85\u2028\u2029]+")
_SINGLE_RUN = regex.compile("[^' \t\n\r\x85\u2028\u2029]+")
_ESCAPED_WIDTH = {"x": 4, "u": 6, "U": 10}


def scalar_pieces(raw: str, value: str, style: str) -> Pieces:
    """Break points (offset in ``value``, offset in ``raw``) of the scalar written as ``raw`` in YAML style ``style``.

    ``raw`` may begin with the scalar's anchor and tag. What cannot be followed ends in the last known piece.
    """
    start = 0
    if raw[:1] in {"&", "!"}:
        match = _PROPERTY.match(raw)
        start = match.end() if match else 0
    match style:
        case "|" | ">":
            header = _BLOCK_HEADER.match(raw, start)
            return _lines(value, _block_lines(raw, start, value), header.end() if header else start)
        case "'":
            return _quoted(raw, start + 1, single=True)
        case '"':
            return _quoted(raw, start + 1, single=False)
        case _:
            return _lines(value, _plain_lines(raw, start), start)


def _lines(value: str, lines: Iterator[tuple[str, int]], start: int) -> Pieces:
    """Find each written line in the value, in order; between two lines the value holds only a fold or line breaks."""
    pieces: Pieces = []
    at = 0
    for line, offset in lines:
        while not value.startswith(line, at):
            if at >= len(value) or value[at] not in " \n\u2028\u2029":
                return pieces or [(0, start)]
            at += 1
        if at and not pieces:
            pieces.append((0, start))
        pieces.append((at, offset))
        at += len(line)
    return pieces or [(0, start)]


def _split(raw: str, start: int) -> Iterator[tuple[str, int]]:
    for match in _BREAK.finditer(raw, start):
        yield raw[start : match.start()], start
        start = match.end()
    yield raw[start:], start


def _plain_lines(raw: str, start: int) -> Iterator[tuple[str, int]]:
    for line, offset in _split(raw, start):
        if stripped := line.strip(" \t"):
            yield stripped, offset + line.index(stripped)


def _block_lines(raw: str, start: int, value: str) -> Iterator[tuple[str, int]]:
    """Content lines of a block scalar without their indentation (blank ones are left out)."""
    header = _BLOCK_HEADER.match(raw, start)
    if header is None:
        return
    body = list(_split(raw, header.end()))[1:]
    first = next((line for line, _ in body if line.strip(" ")), "")
    indent = len(first) - len(first.lstrip(" "))
    if re.match(r"[|>][+-]?[1-9]", raw[start:]):
        # The indicator counts from the parent's indentation, which the value gives away: its first line keeps the rest.
        kept = value.lstrip("\n")
        indent -= min(len(kept) - len(kept.lstrip(" ")), indent)
    for line, offset in body:
        if len(line) > indent:
            yield line[indent:], offset + indent


def _quoted(raw: str, at: int, *, single: bool) -> Pieces:
    """Follow a quoted scalar character by character as YAML reads it."""
    pieces: Pieces = [(0, at)]
    here = 0

    def piece() -> None:
        if here - pieces[-1][0] != at - pieces[-1][1]:
            pieces.append((here, at))

    run = _SINGLE_RUN if single else _DOUBLE_RUN
    end = len(raw) - 1
    while at < end:
        if match := run.match(raw, at, end):
            piece()
            here += match.end() - at
            at = match.end()
        elif match := _BLANKS.match(raw, at, end):
            breaks = len(_BREAK.findall(match.group()))
            piece()
            here += max(breaks - 1, 1) if breaks else match.end() - at
            at = match.end()
        elif single:
            piece()
            here, at = here + 1, at + 2
        elif (match := _BREAK.match(raw, at + 1)) is not None:
            blanks = _BLANKS.match(raw, match.end(), end)
            at = match.end()
            if blanks:
                here += len(_BREAK.findall(blanks.group()))
                at = blanks.end()
        else:
            piece()
            here, at = here + 1, at + _ESCAPED_WIDTH.get(raw[at + 1 : at + 2], 2)
    return pieces
