"""Numbers of things in text for people."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """``1 finding``, ``2 findings``, ``1,234 fixes``; only nouns with a regular plural."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith(('x', 's', 'ch', 'sh')) else 's'}"
