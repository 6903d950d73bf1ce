"""Answers that the processes of one run tell each other while they work.

Each process appends the stored answers that took it some time to a file of its own, and reads what the others have
appended before it computes one itself. Nobody waits for anybody: what is not told yet is computed, and since answers
are pure functions of the tree it makes no difference who has found one.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from gpulint.reads import TakenEntry

if TYPE_CHECKING:
    from gpulint.reads import StoredEntry, StoredQuery
    from gpulint.workspace.tree import Tree

T = TypeVar("T")

LEAST_S = 0.0005
"""Seconds from which an answer is told: the others find out faster ones in less time than they take to read them."""
_HEADER = struct.Struct("<II")
"""Length and checksum of what follows."""


def file_of(folder: Path, number: int) -> Path:
    """The file that a process appends to."""
    return folder / f"{number}.answers"


class Peers:
    """The other processes of a run, as one of them sees them.

    Raises:
        OSError: one of the files cannot be opened.
    """

    def __init__(self, tree: Tree, folder: Path, number: int, count: int) -> None:
        """``number`` of ``count`` processes; ``folder`` holds a file for each."""
        self.told: list[StoredEntry] = []
        """Answers of this process that others may rest on."""
        self._tree, self._number, self._count = tree, number, count
        self._own: IO[bytes] | None = file_of(folder, number).open("ab", buffering=0)
        others = (file_of(folder, other) for other in range(count) if other != number)
        self._others = [_Reader(path.open("rb", buffering=0)) for path in others]
        self._heard: dict[tuple[str, tuple[Any, ...]], Any] = {}
        self._paths: dict[str, Path] = {}

    def answer(self, query: StoredQuery, args: tuple[Any, ...], compute: Callable[[], StoredEntry]) -> StoredEntry:
        """The answer of another process, or what ``compute`` returns, which the others are told if that pays."""
        taken = self._taken(query, args)
        if taken is not None:
            self._tree.db.reads.append(taken)
            return taken
        started = time.perf_counter()
        entry = compute()
        if time.perf_counter() - started > LEAST_S:
            self._tell(entry)
        return entry

    def _taken(self, query: StoredQuery, args: tuple[Any, ...]) -> TakenEntry | None:
        for reader in self._others:
            for record in reader.records():
                name, key, value = _Unpickler(record, self).load()
                self._heard[name, key] = value
        key = query.name, args
        return TakenEntry(query, args, self._heard.pop(key)) if key in self._heard else None

    def _tell(self, entry: StoredEntry) -> None:
        if self._own is None:
            return
        stream = io.BytesIO()
        _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump((entry.query.name, entry.key, entry.value))
        data = stream.getvalue()
        try:
            whole = self._own.write(_HEADER.pack(len(data), zlib.crc32(data)) + data) == _HEADER.size + len(data)
        except OSError:
            whole = False
        if whole:
            self.told.append(entry)
        else:  # no space is left, and what follows could not be told apart
            self._own = None

    def in_turn(self, items: Sequence[T]) -> Sequence[T]:
        """``items``, beginning with this process's part."""
        first = len(items) * self._number // self._count
        return (*items[first:], *items[:first])

    def path(self, text: str) -> Path:
        """A path, the files of the tree as the objects that stand for them."""
        known = self._paths.get(text)
        if known is None:
            known = self._paths[text] = self._tree.own_path(Path(text))
        return known


def in_turn(peers: Peers | None, items: Sequence[T]) -> Sequence[T]:
    """Items to ask a stored query of whose answers are all needed: processes that do the same start with different
    ones, so that they share the work."""
    return items if peers is None else peers.in_turn(items)


class _Reader:
    """What one process has told since the last time."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._rest = b""

    def records(self) -> Iterator[bytes]:
        """Whole records; the rest of one that is being written comes with a later call."""
        new = b""
        with contextlib.suppress(OSError):
            new = self._file.read()
        if not new:
            return
        data, start = self._rest + new, 0
        found = []
        while len(data) - start >= _HEADER.size:
            length, checksum = _HEADER.unpack_from(data, start)
            record = data[start + _HEADER.size : start + _HEADER.size + length]
            if len(record) < length or zlib.crc32(record) != checksum:
                break
            found.append(record)
            start += _HEADER.size + length
        self._rest = data[start:]
        yield from found


class _Pickler(pickle.Pickler):
    """Names paths, of which the other side has objects of its own."""

    def persistent_id(self, value: Any) -> str | None:
        return str(value) if isinstance(value, Path) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, record: bytes, peers: Peers) -> None:
        super().__init__(io.BytesIO(record))
        self._peers = peers

    def persistent_load(self, text: str) -> Path:
        return self._peers.path(text)
