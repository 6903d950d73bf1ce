"""Answers about a tree from before some of its inputs got another value, each checked before it is used again.

An answer holds if all inputs that it rests on have the value that they had, and if each stored answer that it rests on
is the same when it is asked anew. So an edit costs what reads the edited file, and what rests on answers that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gpulint.reads import Entry, Input, Read, StoredEntry

if TYPE_CHECKING:
    from gpulint.query import Db, Keeper

_Tables = dict[Callable[..., Any], dict[tuple[Any, ...], Entry]]


class Previous:
    """The answers that ``db`` has when it is made, and those that it had ``earlier``."""

    def __init__(self, db: Db, keeper: Keeper, earlier: Previous | None, *, counts: bool) -> None:
        """With ``counts`` unset, the revision that ends asked hardly anything, as of a text that cannot be parsed."""
        self._db, self._keeper = db, keeper
        self._young: _Tables = db.tables
        # Only those that were asked for in one of the last two revisions, as answers hold the trees of earlier texts.
        self._old: _Tables = {} if earlier is None else earlier._young
        if earlier is not None and not counts:
            for function, table in self._young.items():
                earlier._young.setdefault(function, {}).update(table)
            self._young, self._old = earlier._young, earlier._old
        self._holds: dict[Read, bool] = {}

    def get(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Entry | None:
        """Return the answer to a question if it still holds, and keep it in the tables of now."""
        for tables in (self._young, self._old):
            entry = tables[function].get(args) if function in tables else None
            if entry is not None:
                if not self.holds(entry):
                    return None
                return self._db.put(function, args, entry)
        return None

    def holds(self, entry: Entry) -> bool:
        """Return whether an answer is what would be found now."""
        known = self._holds
        if entry in known:
            return known[entry]
        path: list[tuple[Entry, Iterator[Read]]] = [(entry, iter(entry.reads))]
        while path:
            current, reads = path[-1]
            for read in reads:
                if isinstance(read, Input):
                    same = read.is_current
                elif isinstance(read, StoredEntry):
                    same = self._is_same(read)
                elif isinstance(read, Entry):
                    if read not in known:
                        path.append((read, iter(read.reads)))
                        break
                    same = known[read]
                else:
                    same = False  # what was raised is to be raised again
                if not same:
                    known.update((above, False) for above, _ in path)
                    return False
            else:
                path.pop()
                known[current] = True
        return True

    def _is_same(self, entry: StoredEntry) -> bool:
        """Return whether a stored answer is the same when it is asked now."""
        if entry not in self._holds:
            self._holds[entry] = False  # while it is asked: what it rests on now cannot rest on it
            try:
                now = self._db.asked(entry.query, self._keeper, entry.key)
            except Exception:
                return False  # whoever still asks for it will see why
            self._holds[entry] = now is entry or now.value == entry.value
        return self._holds[entry]
