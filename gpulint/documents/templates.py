"""Templates (Jinja, Go's as Helm has them) of shell and YAML: what may be left out, and what they leave of YAML."""

from __future__ import annotations

import re

from gpulint import regex

_TAG = regex.compile(r"\{%-?\s*(?P<jinja>\w+)|\{\{-?\s*(?P<go>if|with|range|define|block|end)\b")
_JINJA = frozenset({"if", "for", "macro"})
"""Tags of Jinja whose text, up to ``end...``, is there only if something holds or somebody asks for it."""


def optional_parts(text: str) -> tuple[tuple[int, int], ...]:
    """(start, end) of the stretches that a template writes only under a condition, outermost ones alone.

    Tags that nobody closes count for nothing.
    """
    if "{%" not in text and "{{" not in text:
        return ()
    opened: list[tuple[str, int]] = []
    found: list[tuple[int, int]] = []
    for tag in _TAG.finditer(text):
        word = tag["jinja"] or tag["go"]
        if tag["go"] and word != "end":
            opened.append(("", tag.start()))
        elif tag["jinja"] and word in _JINJA:
            opened.append((word, tag.start()))
        else:
            closes = "" if tag["go"] else word.removeprefix("end")
            if word != closes and opened and opened[-1][0] == closes:
                start = opened.pop()[1]
                while found and found[-1][0] > start:
                    found.pop()
                found.append((start, tag.end()))
    return tuple(found)


_EXPRESSION = r"(?:\{\{(?:(?!\}\})[^\n]){0,400}\}\}|\{%(?:(?!%\})[^\n]){0,400}%\}|(?<!\$)\{#(?:(?!#\})[^\n]){0,400}#\})"
_LINE = regex.compile(rf"^[ \t]*(?:{_EXPRESSION}[ \t]*)+(?=\r?$)", re.MULTILINE)
"""A line that a template fills, or that only steers it."""
_COMMENT = regex.compile(r"\{\{-?[ \t]?/\*(?:.*?\*/\s{0,9}-?\}\}|.*)", re.DOTALL)
_INLINE = regex.compile(_EXPRESSION)
_MARKS = "{}%#:,[]&*!|>'\"`@"
_HIDDEN = {ord(mark): chr(0xE000 + number) for number, mark in enumerate(_MARKS)}
_SHOWN = {0xE000 + number: mark for number, mark in enumerate(_MARKS)}
MAX_TEMPLATE = 200_000
"""Characters of a template that is read as YAML, at most."""


def without_control(text: str) -> str:
    """A template of YAML with blanks in place of comments and of lines that hold nothing but tags."""

    def blank(match: re.Match[str]) -> str:
        return "".join("\n" if char == "\n" else " " for char in match.group())

    return _LINE.sub(blank, _COMMENT.sub(blank, text))


def hidden(text: str) -> str:
    """The text with expressions as plain characters, so that YAML takes them for words; nothing moves."""
    return _INLINE.sub(lambda match: match.group().translate(_HIDDEN), text)


def shown(text: str) -> str:
    """The expressions of a text as written."""
    return text.translate(_SHOWN)
