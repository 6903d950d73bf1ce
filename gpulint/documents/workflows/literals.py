"""String literals of Python and Groovy within a stretch of text, and what stands outside of them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import islice, takewhile

from gpulint import regex
from gpulint.records import dataclass
from gpulint.source import Fragment, SourceText

_TOKEN = regex.compile(
    r"""(?P<comment>\#[^\n]*|//[^\n]*|/\*(?:.*?\*/|.*))"""
    r"""|(?P<open>\"{3}|'{3})(?P<long>(?:\\.|(?!(?P=open)).)*)(?:(?P=open)|\Z)"""
    r"""|(?P<quote>["'])(?P<short>(?:\\.|(?!(?P=quote))[^\\\n])*)(?P=quote)""",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Literals:
    """The strings of a text as (start, end) of what they hold, and the text with blanks in place of them and of
    comments."""

    strings: tuple[tuple[int, int], ...]
    code: str

    def within(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Strings between two offsets."""
        first = bisect_left(self.strings, (start, start))
        return takewhile(lambda place: place[1] <= end, islice(self.strings, first, None))


def literals(text: str, *, slashes: bool) -> Literals:
    """Tell strings and comments from the rest; ``slashes``: ``//`` begins a comment, and not ``#``."""
    strings, parts, at = list[tuple[int, int]](), list[str](), 0
    for match in _TOKEN.finditer(text):
        if match["comment"] is not None:
            if match["comment"].startswith("#") is slashes:
                continue
        else:
            strings.append(match.span("long" if match["long"] is not None else "short"))
        parts += [text[at : match.start()], re.sub(r"[^\n]", " ", match[0])]
        at = match.end()
    return Literals(tuple(strings), "".join((*parts, text[at:])))


def fragment(source: SourceText, start: int, end: int, replaced: Mapping[str, str]) -> Fragment:
    """A stretch of a file with some of its text replaced; nothing else moves."""
    text, pieces, at = "", list[tuple[int, int]](), start
    pattern = "|".join(map(re.escape, replaced))
    for match in re.finditer(pattern, source.text[start:end]) if replaced else ():
        here = start + match.start()
        pieces += [(len(text), at), (len(text) + here - at, here)]
        text += source.text[at:here] + replaced[match[0]]
        at = start + match.end()
    pieces.append((len(text), at))
    return Fragment(text + source.text[at:end], source, tuple(pieces))
