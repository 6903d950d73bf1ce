"""Numbers as files write them, which may have more digits than Python converts."""

from __future__ import annotations

MAX_DIGITS = 18
"""More digits than any count, size or port has."""


def whole(text: str | None) -> int | None:
    """The number that decimal digits write; None for any other text and for far too many digits."""
    return int(text) if text is not None and text.isdecimal() and len(text) <= MAX_DIGITS else None
