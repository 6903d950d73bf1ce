"""Regular expressions that are compiled at their first use: a scan uses few of the hundreds that its modules define.

Most expressions do not occur in most texts, which a search for the words in them shows much faster (:func:`occurs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["compile", "occurs"]

if TYPE_CHECKING:
    from re import compile
else:
    _METHODS = ("search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")
    _ATTRIBUTES = ("flags", "groups", "groupindex")

    class _Pattern:
        """Has the methods of a ``re.Pattern`` as attributes of its own once one of them was asked for."""

        __slots__ = ("pattern", "_flags", *_METHODS, *_ATTRIBUTES)

        def __init__(self, pattern: str | bytes, flags: int) -> None:
            self.pattern = pattern
            self._flags = flags

        def __getattr__(self, name: str) -> Any:
            compiled = re.compile(self.pattern, self._flags)
            for known in (*_METHODS, *_ATTRIBUTES):
                setattr(self, known, getattr(compiled, known))
            return object.__getattribute__(self, name)

    def compile(pattern: str | bytes, flags: int = 0) -> _Pattern:
        """Return what ``re.compile`` returns, as far as its methods and attributes go; a mistake shows at the first
        use."""
        return _Pattern(pattern, flags)


def occurs(pattern: re.Pattern[str], text: str) -> bool:
    """Return whether there is a match in a long text."""
    return _holds(text, _needed(pattern)) and pattern.search(text) is not None


_Needed: TypeAlias = "tuple[str | tuple[_Needed, ...], ...]"
"""Strings, all of which are in each text that matches; a tuple stands for one of its members."""
_MIN_LENGTH = 3
"""Shorter strings are in most texts."""


def _holds(text: str, needed: _Needed) -> bool:
    return all(
        part in text if isinstance(part, str) else any(_holds(text, branch) for branch in part) for part in needed
    )


@cache
def _needed(pattern: re.Pattern[str]) -> _Needed:
    compiled = re.compile(pattern.pattern, pattern.flags)
    if compiled.flags & re.IGNORECASE:
        return ()
    return _of_sequence(re._parser.parse(pattern.pattern, compiled.flags))  # type: ignore[attr-defined]


def _of_sequence(parts: Iterable[tuple[Any, Any]]) -> _Needed:
    """Return what the parts of an expression need that follow each other."""
    found: list[str | tuple[_Needed, ...]] = []
    run = ""
    for kind, value in parts:
        name = str(kind)
        if name == "LITERAL":
            run += chr(value)
        elif name != "AT":  # which matches no characters
            found += [run, *_of_part(name, value)]
            run = ""
    return tuple(part for part in (*found, run) if not isinstance(part, str) or len(part) >= _MIN_LENGTH)


def _of_part(name: str, value: Any) -> _Needed:
    match name:
        case "SUBPATTERN" if not value[1] & re.IGNORECASE:
            return _of_sequence(value[3])
        case "BRANCH":
            branches = tuple(_of_sequence(branch) for branch in value[1])
            return (branches,) if all(branches) else ()
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT" if value[0]:
            return _of_sequence(value[2])
    return ()
