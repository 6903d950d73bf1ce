"""The identifiers in a text, found without parsing it."""

from __future__ import annotations

_APART = bytes(byte if byte < 128 and (chr(byte).isalnum() or byte == 95) else 32 for byte in range(256))
"""Turns everything that no identifier holds into spaces."""


def words_in(text: bytes) -> set[bytes]:
    """The runs of letters, digits and underscores in a text; several times faster than to search for each of them."""
    return {*text.translate(_APART).split()}
