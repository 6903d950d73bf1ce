"""Answers that rest on one file alone, which whoever asks has read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from gpulint.query import Db
from gpulint.reads import NOTHING, Entry


class _OfText(Entry):
    """An answer that rests on the text of a module, not on its syntax tree alone."""

    __slots__ = ()


class LocalDb(Db):
    """Keeps them; with ``track``, those that rest on the text of the file and not on its syntax tree alone are told
    apart."""

    def __init__(self) -> None:
        super().__init__()
        self._texts_read = 0
        self._tell: Callable[[], object] | None = None

    def compute(self, function: Callable[..., Any], keeper: Any, args: tuple[Any, ...]) -> Any:
        """Answer a query; nothing is recorded but that the text was read, if anybody wants to know."""
        before = self._texts_read
        value = function(keeper, *args)
        self.put(function, args, (Entry if self._texts_read == before else _OfText)(value, NOTHING))
        return value

    def track(self, tell: Callable[[], object]) -> None:
        """Tell each time that an answer is read which rests on the text."""
        if self._tell is None:
            self.tables.clear()  # nobody noted which of these do
        self._tell = tell
        self.reads = _TextReads(self)

    def read_text(self) -> None:
        """Note that the text is read."""
        if self._tell is not None:
            self._texts_read += 1
            self._tell()

    def forget_text(self) -> None:
        """Drop what rests on the text, as it is another one now."""
        for table in self.tables.values():
            for args in [args for args, entry in table.items() if type(entry) is _OfText]:
                del table[args]


class _TextReads(deque[Any]):
    """Takes the answers that are read of a module, of which only those on its text matter."""

    def __init__(self, db: LocalDb) -> None:
        super().__init__(maxlen=0)
        self._db = db

    def append(self, read: Any) -> None:
        if type(read) is _OfText:
            self._db.read_text()
