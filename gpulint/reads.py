"""What an answer rests on: inputs and other answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol

MAX_INLINE = 8
"""Inputs that whoever reads an answer takes over one by one; of more it keeps a reference to the answer."""


class Read:
    """Something that an answer may rest on. ``inline`` are the reads that stand for it in a list of reads; None if it
    stands there itself."""

    __slots__ = ("inline",)
    inline: tuple[Read, ...] | None


Rests = tuple[tuple[Read, ...], tuple[Read, ...] | None]
"""All that an answer rests on, and the same if it is short and nothing in it need be followed."""


NOTHING: Rests = ((), ())


def rests_of(reads: Iterable[Read]) -> Rests:
    """Return what rests on ``reads``."""
    unique = {*reads}
    inlines = {read.inline for read in unique}
    if None in inlines:
        inlines.discard(None)
        return tuple({read for read in unique if read.inline is None}.union(*inlines)), None  # type: ignore[arg-type]
    # Most answers rest on what some answer below them rests on, so they share it.
    found = inlines.pop() if len(inlines) == 1 else tuple(set[Read]().union(*inlines))  # type: ignore[arg-type]
    assert found is not None
    return found, found if len(found) <= MAX_INLINE else None


class Input(Read):
    """Something outside of all queries, by kind and key: ``("content", path)``.

    Where an answer may be used after a change, ``value`` is what a lookup returned. Once an input has another value,
    another object takes its place.
    """

    __slots__ = ("is_current", "key", "kind", "value")

    def __init__(self, kind: str, key: tuple[Hashable, ...]) -> None:
        self.kind, self.key = kind, key
        self.inline = (self,)
        self.value: Any = None
        self.is_current = True


class Raised(Read):
    """An exception that cost an answer a part of what it would hold."""

    __slots__ = ("failure",)

    def __init__(self, failure: Any) -> None:
        self.failure = failure
        self.inline = (self,)


class Entry(Read):
    """A final answer with what it rests on."""

    __slots__ = ("reads", "value")

    def __init__(self, value: Any, rests: Rests) -> None:
        self.value = value
        self.reads, self.inline = rests


class StoredQuery:
    """A query by its name, with the function that computes it."""

    def __init__(self, name: str, compute: Callable[..., Any]) -> None:
        """``name`` starts with the module that defines the query, and a bar."""
        self.name, self.compute = name, compute


class StoredEntry(Entry):
    """The answer of a stored query. Whoever reads it rests on its value alone, whatever that was found from."""

    __slots__ = ("key", "query")

    def __init__(self, query: StoredQuery, key: tuple[Any, ...], value: Any, rests: Rests) -> None:
        super().__init__(value, rests)
        self.query, self.key = query, key
        self.inline = (self,)


class TakenEntry(StoredEntry):
    """The answer of a stored query that another process has found, which knows what it rests on."""

    __slots__ = ()

    def __init__(self, query: StoredQuery, key: tuple[Any, ...], value: Any) -> None:
        super().__init__(query, key, value, NOTHING)


class Earlier(Protocol):
    """Answers of an earlier run, of which each is checked before it is used."""

    def get(self, query: StoredQuery, args: tuple[Any, ...]) -> StoredEntry | None:
        """The answer if it still holds."""


def followed(entry: Entry) -> list[Read]:
    """The inputs, stored answers and failures that an answer rests on, also through other answers."""
    found: dict[Read, None] = {}
    seen: set[Read] = set()
    todo = [entry.reads]
    while todo:
        for read in todo.pop():
            if read.inline is not None:
                found.update(dict.fromkeys(read.inline))
            elif read not in seen:
                assert isinstance(read, Entry)
                seen.add(read)
                todo.append(read.reads)
    return [*found]
