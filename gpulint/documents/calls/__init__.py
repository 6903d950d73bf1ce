"""Jobs that Python code submits: calls and decorators as trees, which the rows of job formats read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.identifiers import words_in

if TYPE_CHECKING:
    from gpulint.libraries import Models
    from gpulint.libraries.jobs import Format


class CallRows:
    """The rows that are for Python, and what a file has if one of them may be for it."""

    def __init__(self, models: Models) -> None:
        self.rows: list[tuple[Format, re.Pattern[str]]] = [
            (row, regex.compile("|".join(map(_pattern, row.calls)))) for row in models.rows("format") if row.calls
        ]
        self.imports = frozenset(name for row, _ in self.rows for name in _imports(row))
        """Modules of which a file imports one."""
        self.names = frozenset(name.rpartition(".")[2] for row, _ in self.rows for name in row.calls)
        """Names of which it has one."""
        self._words = tuple(frozenset(map(str.encode, names)) for names in (self.imports, self.names))
        modules = "|".join(sorted(map(re.escape, self.imports)))
        self._imported = regex.compile(rf"^[ \t]*(?:from|import)[ \t][^\n]*?\b(?:{modules})\b", re.MULTILINE)

    def may_read(self, text: str) -> bool:
        """Return whether a file's text may hold a job."""
        # Most files have no such identifiers, which takes less time to find out than the search does.
        words = frozenset(words_in(text.encode("utf-8", "replace")))
        return self.may_hold_jobs(words) and self._imported.search(text) is not None

    def may_hold_jobs(self, words: frozenset[bytes]) -> bool:
        """The same by the file's identifiers."""
        return not any(words.isdisjoint(names) for names in self._words)

    def row(self, name: str) -> Format | None:
        """The first row for a call by its dotted name."""
        return next((row for row, pattern in self.rows if pattern.fullmatch(name)), None)


def _pattern(name: str) -> str:
    return r"[\w.()?]*".join(map(re.escape, name.split("*")))


def _imports(row: Format) -> tuple[str, ...]:
    return row.imports or tuple({name.partition(".")[0] for name in row.calls})
