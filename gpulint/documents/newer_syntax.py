"""Syntax of Python 3.12, written so that Python 3.11 reads it: f-strings in f-strings, type parameters, type aliases.

Nothing moves: each character is replaced by another one, so that all nodes keep their places. What is lost are type
parameters, and characters of strings inside f-strings that older Pythons do not allow there.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence

from gpulint import regex

_TOKEN = regex.compile(
    r"""
    (?P<comment>\#[^\r\n]*)
    | ^[ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+\w+[ \t]*(?P<parameters>\[)
    | ^[ \t]*type(?P<gap>[ \t])[ \t]*\w+[ \t]*(?:=|(?P<alias>\[))
    | (?<!\w)(?P<prefix>[bBfFrRuU]{0,2})(?P<quote>\"""|'''|"|')
    """,
    re.VERBOSE | re.MULTILINE,
)
_NESTED = regex.compile(r"""(?<!\w)(?P<prefix>[bBfFrRuU]{0,2})(?P<quote>\"""|'''|"|')""")
_REST = {
    "'": regex.compile(r"(?:[^\\'\n]|\\.)*'", re.DOTALL),
    '"': regex.compile(r'(?:[^\\"\n]|\\.)*"', re.DOTALL),
    "'''": regex.compile(r"(?:[^\\]|\\.)*?'''", re.DOTALL),
    '"""': regex.compile(r'(?:[^\\]|\\.)*?"""', re.DOTALL),
}
"""The rest of a plain string, by its quotes."""
_PARAMETERS = regex.compile(r"\[[^\[\]\r\n]*(?:\[[^\[\]\r\n]*\][^\[\]\r\n]*)*\]")


def parse(text: str) -> ast.Module:
    """As :func:`ast.parse`, also of what Python 3.12 brought.

    Raises SyntaxError of the text as it is written, and whatever else :func:`ast.parse` raises.
    """
    try:
        return ast.parse(text)
    except SyntaxError as error:
        if sys.version_info >= (3, 12) or (older := _Older(text).text()) in (None, text):
            raise
        try:
            return ast.parse(older)
        except SyntaxError:
            raise error from None


class _Unknown(Exception):
    """Cannot be written for an older Python."""


class _Older:
    def __init__(self, text: str) -> None:
        self._text = text
        self._out = list(text)

    def text(self) -> str | None:
        """Return the text for an older Python; None if there is none."""
        at = 0
        try:
            while (token := _TOKEN.search(self._text, at)) is not None:
                at = token.end()
                if token["quote"]:
                    at = self._string(token["prefix"], token["quote"], at, (token["quote"],))
                elif (start := max(token.start("parameters"), token.start("alias"))) >= 0:
                    at = self._drop_parameters(start)
                if token["gap"]:
                    self._out[token.start("gap")] = ";"
        except (_Unknown, IndexError, ValueError, RecursionError):
            return None
        return "".join(self._out)

    def _drop_parameters(self, start: int) -> int:
        found = _PARAMETERS.match(self._text, start)
        if found is None:
            raise _Unknown
        self._out[start : found.end()] = " " * len(found[0])
        return found.end()

    def _string(self, prefix: str, quote: str, at: int, around: Sequence[str]) -> int:
        """Return the end of a string whose text begins at a place; ``around`` are the quotes that it and the f-strings
        around it get."""
        if "f" in prefix.lower():
            return self._literal(at, quote, around, raw="r" in prefix.lower()) + len(quote)
        rest = _REST[quote].match(self._text, at)
        if rest is None:
            raise _Unknown
        if len(around) > 1:
            self._clean(at, rest.end() - len(quote), around)
        return rest.end()

    def _clean(self, start: int, end: int, around: Sequence[str]) -> None:
        """Replace what a string in an f-string must not have."""
        for at in range(start, end):
            if self._text[at] == "\\" or self._text[at] in around:
                self._out[at] = "_"
            elif self._text[at] == "\n" and _on_one_line(around):
                raise _Unknown

    def _literal(
        self, at: int, quote: str, around: Sequence[str], *, raw: bool = False, in_format: bool = False
    ) -> int:
        """Return where the text of an f-string ends, or a format in one."""
        text = self._text
        while not (text[at] == "}" if in_format else text.startswith(quote, at)):
            character, start = text[at], at
            if character == "{" and (in_format or text[at + 1] != "{"):
                at = self._field(at + 1, around)
                continue
            if character == "\\" and text.startswith("\\N{", at) and not raw:
                at = text.index("}", at) + 1
            else:
                at += 2 if (character == "\\" and text[at + 1] not in "{}") or character in "{}" else 1
            if character == "\n" and len(quote) == 1:
                raise _Unknown
            if len(around) > 1:
                self._clean(start, at, around)
        return at

    def _field(self, at: int, around: Sequence[str]) -> int:
        """Return the end of ``{expression!r:format}``, from its expression on."""
        text, depth = self._text, 0
        while True:
            character = text[at]
            if (token := _NESTED.match(text, at)) is not None:
                at = self._nested(token, around)
            elif character == "#":
                end = text.index("\n", at)
                self._out[at:end] = " " * (end - at)
                at = end
            elif character == "\\" or (character == "\n" and _on_one_line(around)):
                raise _Unknown
            elif character == "}" and not depth:
                return at + 1
            elif character == ":" and not depth:
                at = self._literal(at + 1, "", around, in_format=True)
            else:
                depth += (character in "([{") - (character in ")]}")
                at += 1

    def _nested(self, token: re.Match[str], around: Sequence[str]) -> int:
        """Give a string in a field quotes that none of the f-strings around it has; return its end."""
        quote, start = token["quote"], token.end("quote")
        free = next((one * len(quote) for one in (quote[0], "'", '"') if _fits(one * len(quote), around)), None)
        end = self._string(token["prefix"], quote, start, (*around, free or quote))
        if free is None:
            self._out[token.start() : end] = "_" * (end - token.start())
        else:
            self._out[start - len(quote) : start] = self._out[end - len(quote) : end] = free
        return end


def _fits(quote: str, around: Sequence[str]) -> bool:
    """Return whether a string of these quotes may be in f-strings of the others."""
    return all(quote[0] != one[0] or len(quote) < len(one) for one in around)


def _on_one_line(around: Sequence[str]) -> bool:
    return any(len(quote) == 1 for quote in around)
