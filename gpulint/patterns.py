"""Patterns as in ``.gitignore``, compiled so that no pattern makes matching slow.

pathspec turns a pattern into a regular expression. Python's engine backtracks, and with many wildcards in one pattern
it would need longer than anybody waits. A wildcard never has to give back what it took for the text before the next
wildcard, since that one can take as much, so that all but the last of them become atomic here.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from gpulint import regex

if TYPE_CHECKING:
    import pathspec

MAX_PATTERNS = 2_000
"""Most patterns of one ``.gitignore`` or setting."""
MAX_LENGTH = 4_096
"""Longest pattern; no path is longer."""

# What pathspec writes for wildcards. No pattern can bring such text itself, as it is split at slashes first.
_STAR = "[^/]*"
_SLASH = regex.compile(r"(?<!\[\^)/")
_ANY_FOLDERS = regex.compile(re.escape("^(?:.+/)?") + "|" + re.escape("(?:/.+)?"))


class BadPattern(ValueError):
    """A pattern that cannot be compiled; the message says why."""


@cache
def compiled(patterns: tuple[str, ...]) -> pathspec.GitIgnoreSpec:
    """Return what matches paths against ``patterns``, of which the last match counts.

    Raises:
        BadPattern: one of them is no pattern.
    """
    import pathspec

    if len(patterns) > MAX_PATTERNS:
        raise BadPattern(f"has {len(patterns):,} patterns, more than {MAX_PATTERNS:,}")
    # Other engines that pathspec may find installed do not know atomic groups.
    return pathspec.GitIgnoreSpec([*map(_compiled_pattern, patterns)], backend="simple")


def readable(patterns: Iterable[str]) -> tuple[tuple[str, ...], int]:
    """The patterns that can be compiled, and how many were left out."""
    kept: list[str] = []
    left_out = 0
    for pattern in patterns:
        if not pattern.strip() or pattern.startswith("#"):
            continue
        try:
            if len(kept) >= MAX_PATTERNS:
                raise BadPattern("one too many")
            if len(pattern) > MAX_LENGTH or not _NAME.fullmatch(pattern):
                _compiled_pattern(pattern)
            kept.append(pattern)
        except BadPattern:
            left_out += 1
    return tuple(kept), left_out


_NAME = regex.compile(r"(\*?)([\w.@~$+=-]+)(/?)", re.ASCII)
"""A pattern that says how one component of a path is called, or how its name ends; of a folder with the slash."""


class NamePatterns:
    """Patterns of one ``.gitignore``. Most name files, folders or endings, and need no regular expression."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        names = [_NAME.fullmatch(pattern) for pattern in patterns]
        if any(pattern.startswith("!") for pattern in patterns):
            names = [None] * len(patterns)  # of patterns that contradict each other the last one counts
        found = [name.groups() for name in names if name is not None]
        self._names = frozenset(name for star, name, slash in found if not star and not slash)
        self._folders = frozenset(name for star, name, slash in found if not star and slash)
        self._endings = tuple(name for star, name, slash in found if star and not slash)
        self._folder_endings = tuple(name for star, name, slash in found if star and slash)
        rest = tuple(pattern for pattern, name in zip(patterns, names, strict=True) if name is None)
        self._rest = compiled(rest) if rest else None

    def include(self, path: str) -> bool | None:
        """Return whether a path (with a slash at its end if it is a folder's) is ignored; None: nothing is said of
        it."""
        *folders, last = path.split("/")
        parts = [*folders, last] if last else folders
        if not (self._names.isdisjoint(parts) and self._folders.isdisjoint(folders)):
            return True
        if any(part.endswith(self._endings) for part in parts):
            return True
        if any(part.endswith(self._folder_endings) for part in folders):
            return True
        if self._rest is None:
            return None
        return self._rest.check_file(path).include if last else self._of_folder(path)

    def _of_folder(self, path: str) -> bool | None:
        """Return what the last pattern says that matches a folder. pathspec lets ``*`` win over ``!*/`` behind it, as
        is right for the files below the folder alone."""
        assert self._rest is not None
        matching = (one for one in reversed(self._rest.patterns) if one.match_file(path) is not None)
        return next((one.include for one in matching if one.include is not None), None)


@cache
def _pattern_class() -> type[Any]:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    class LinearPattern(GitIgnoreSpecPattern):
        __slots__ = ()

        @classmethod
        def pattern_to_regex(cls, pattern: Any) -> tuple[Any, bool | None]:
            regex, include = super().pattern_to_regex(pattern)
            return (None if regex is None else _without_backtracking(regex)), include

    return LinearPattern


@cache
def _compiled_pattern(pattern: str) -> Any:
    if len(pattern) > MAX_LENGTH:
        raise BadPattern(f"has a pattern of {len(pattern):,} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about `[[:alpha:]]`, which Python may read otherwise one day
            return _pattern_class()(pattern)
    except (ValueError, re.error, RecursionError, OverflowError):
        raise BadPattern(f"has {pattern!r}, which is no pattern") from None


def _without_backtracking(regex: str) -> str:
    """The same expression with each part between two wildcards matched at the first place where it fits."""
    folders = _ANY_FOLDERS.findall(regex)
    first, *parts = ("/".join(map(_atomic_stars, _SLASH.split(part))) for part in _ANY_FOLDERS.split(regex))
    found = first
    for at, (wildcard, part) in enumerate(zip(folders, parts, strict=True), 1):
        lazy = wildcard.replace(".+", ".+?") + "?"
        found += f"(?>{lazy}{part}(?=/))" if at < len(parts) else wildcard + part
    return found


def _atomic_stars(segment: str) -> str:
    first, *parts = segment.split(_STAR)
    return first + "".join(
        f"(?>{_STAR}?{part})" if at < len(parts) else _STAR + part for at, part in enumerate(parts, 1)
    )
