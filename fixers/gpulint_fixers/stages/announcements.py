"""Lines of a script that only say what its next steps do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpulint import regex
from gpulint_fixers.stages.pieces import Piece

_ANNOUNCES = regex.compile(
    r"\b(?:(?:download|install|fetch|extract|unpack|unzipp|untarr|copy|sync|synchroni[sz]|clon|prepar|creat|updat|upgrad"
    r"|transferr)ing|setting up)\b",
    re.IGNORECASE,
)
"""Words of what a step does."""
_FRAME = regex.compile(r"\s*(?:echo|printf)(?:\s+-\w+)?[\s=*#~_+\\n'\"-]*")
"""A line of signs, or an empty one."""


def announcements(moved: Sequence[Piece], found: Sequence[Piece]) -> list[Piece]:
    """The lines right above pieces that move that say so (``echo "Downloading data ..."``), with the lines of signs
    around them; a script that no longer does it should not say that it does."""
    chosen = list[Piece]()
    places = {id(piece): at for at, piece in enumerate(found)}
    for piece in moved:
        said, below = list[Piece](), piece
        for above in reversed(found[: places[id(piece)]]):
            if above.last + 1 != below.start or not only_says(above):
                break
            if not (_ANNOUNCES.search(above.text) or _FRAME.fullmatch(above.text)):
                break
            said.append(above)
            below = above
        if any(_ANNOUNCES.search(one.text) for one in said):
            chosen += said
    return chosen


def only_says(piece: Piece) -> bool:
    """Return whether a piece shows text that is the same in every job."""
    return (
        bool(piece.commands)
        and not piece.assignments
        and not piece.functions
        and "$" not in piece.text
        and "`" not in piece.text
        and all(command.name in ("echo", "printf") and not command.redirects for command in piece.commands)
    )
