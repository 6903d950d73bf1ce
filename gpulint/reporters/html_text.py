"""Text of a report as HTML: nothing in it is markup."""

from __future__ import annotations

from html import escape

from gpulint import regex
from gpulint.escaping import printable

_NUMBER = regex.compile(r"(?<=\d) (?=[A-Za-z%])")
_CODE = regex.compile(r"`([^`]+)`")


def text(value: str) -> str:
    """``value`` as text of HTML, with escapes for what would be hidden or reorder what is around it."""
    return escape(printable(value.expandtabs(4), keep="\n"))


def code(value: str) -> str:
    """The same, with what is between backticks as code, and numbers kept with their units."""
    return _CODE.sub(r"<code>\1</code>", _NUMBER.sub("&nbsp;", text(value)))
