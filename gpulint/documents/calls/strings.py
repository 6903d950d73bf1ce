"""Strings of Python as text with its way back to the file: escapes, f-strings and literals put one after another."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from gpulint import regex
from gpulint.documents.calls.origins import Origins
from gpulint.source import Fragment

_START = regex.compile(r"([rRbBuUfF]{0,2})('''|\"\"\"|'|\")")
_BETWEEN = regex.compile(r"(?:\s|#[^\n]*|\\\r?\n)*")
_NAMED = regex.compile(r"[A-Za-z_]\w*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}

Pieces = list[tuple[int, int]]


def unknown(node: ast.AST) -> str:
    """A shell variable in place of what is not known."""
    words = _NAMED.findall(ast.unparse(node))
    return "${" + (words[-1] if words else "value") + "}"


def fragment(origins: Origins, node: ast.Constant | ast.JoinedStr, known: Callable[[ast.expr], str | None]) -> Fragment:
    """The text of a string literal; ``known`` gives the text of an f-string's expression."""
    origin, start, end = origins.at(node)
    read = _Reader(origin.text[start:end], list(_expressions(node)), known)
    text = read.text() if origin.text else None
    if isinstance(node, ast.Constant) and text != node.value:  # an escape by number or name
        return _at(origin, str(node.value), [(0, start)])
    if text is None:
        return _at(origin, _plain(node, known), [(0, start)])
    return _at(origin, text, [(here, start + there) for here, there in read.pieces])


def _at(origin: Fragment, text: str, pieces: Pieces) -> Fragment:
    places = tuple((here, origin.owner_offset(there)) for here, there in pieces) or ((0, origin.owner_offset(0)),)
    return Fragment(text, origin.owner, places, origin.cell)


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    for part in node.values if isinstance(node, ast.JoinedStr) else ():
        if isinstance(part, ast.FormattedValue):
            yield part.value


def _plain(node: ast.Constant | ast.JoinedStr, known: Callable[[ast.expr], str | None]) -> str:
    """The text of a string whose literals could not be told apart."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    texts = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            text = known(part.value)
            texts.append(unknown(part.value) if text is None else text)
        elif isinstance(part, ast.Constant):
            texts.append(str(part.value))
    return "".join(texts)


class _Reader:
    """Reads literals that are one string."""

    def __init__(self, raw: str, expressions: list[ast.expr], known: Callable[[ast.expr], str | None]) -> None:
        self.raw, self.expressions, self.known = raw, expressions, known
        self.pieces: Pieces = []
        self.parts: list[str] = []
        self.length = 0

    def text(self) -> str | None:
        """The whole text; None where the literals could not be read."""
        at = 0
        while at < len(self.raw):
            match = _START.match(self.raw, at)
            end = None if match is None else self._body(match[1].lower(), match[2], match.end())
            if end is None:
                return None
            between = _BETWEEN.match(self.raw, end)
            at = between.end() if between is not None else end
        return None if self.expressions else "".join(self.parts)

    def _add(self, text: str, at: int) -> None:
        self.pieces.append((self.length, at))
        self.parts.append(text)
        self.length += len(text)

    def _body(self, prefix: str, quote: str, at: int) -> int | None:
        """Take over one literal; the offset after it."""
        stops = re.compile(
            f"{re.escape(quote)}|\\\\|[{{}}]" if "f" in prefix else f"{re.escape(quote)}|\\\\", re.DOTALL
        )
        while (match := stops.search(self.raw, at)) is not None:
            if match.start() > at:
                self._add(self.raw[at : match.start()], at)
            found, at = match[0], match.end()
            if found == quote:
                return at
            following = self.raw[at : at + 1]
            if found == "\\":
                if "r" in prefix:
                    self._add(found + following, at - 1)
                elif following in _ESCAPES:
                    self._add(_ESCAPES[following], at - 1)
                elif following != "\n":
                    return None
                at += 1
            elif following == found:
                self._add(found, at)
                at += 1
            else:
                end = self._expression(at)
                if found == "}" or end is None:
                    return None
                at = end
        return None

    def _expression(self, at: int) -> int | None:
        """Put in the value of ``{expression}``; the offset after it."""
        depth, end = 1, at
        while end < len(self.raw) and depth:
            depth += {"{": 1, "}": -1}.get(self.raw[end], 0)
            end += 1
        if depth or not self.expressions:
            return None
        node = self.expressions.pop(0)
        text = self.known(node)
        self._add(unknown(node) if text is None else text, at - 1)
        return end
