"""Lines for a terminal: folded to its width, in colours and with hyperlinks where it can show them."""

from __future__ import annotations

import textwrap
from functools import lru_cache

from gpulint import regex
from gpulint.escaping import no_command, printable
from gpulint.records import dataclass

_GLUE = "\N{NO-BREAK SPACE}"
_NUMBER = regex.compile(r"(?<=\d) (?=[A-Za-z%])")
_CODE = regex.compile(r"`[^`]{1,40}`")


@dataclass(frozen=True, slots=True)
class Paint:
    """Writes text in colours and links, or plain."""

    colour: bool
    links: bool

    def __call__(self, text: str, style: str) -> str:
        """``text`` in a style of SGR codes such as ``1;31``."""
        return f"\033[{style}m{text}\033[0m" if self.colour and style and text else text

    def link(self, text: str, address: str) -> str:
        """``text`` as a link to ``address``, for terminals that know OSC 8."""
        return f"\033]8;;{address}\033\\{text}\033]8;;\033\\" if self.links else text


def safe(text: str) -> str:
    """``text`` as a line of its own that neither a terminal nor a CI system obeys."""
    return no_command(printable(text))


@lru_cache(maxsize=1000)
def folded(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """``text`` in lines of ``width`` columns, the first one behind ``first`` and the others behind ``rest``.

    Paths, addresses, short code and a number with its unit stay together; lines after a line break in ``text`` (code to
    copy) stay as they are.
    """
    line, *code = (printable(part, keep="\t") for part in text.split("\n"))
    glued = _CODE.sub(lambda found: found.group().replace(" ", _GLUE), _NUMBER.sub(_GLUE, line))
    lines = textwrap.wrap(
        glued,
        max(width, 40),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(_GLUE, " ") for part in lines] + [f"    {part}" if part else "" for part in code]
