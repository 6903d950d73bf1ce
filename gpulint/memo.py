"""Cached answers to questions that depend on each other, cycles included."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Hashable, Iterator, Sized
from functools import wraps
from itertools import count
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

S = TypeVar("S")
T = TypeVar("T")

MAX_DEPTH = 16
"""Most questions open inside each other. What is asked deeper is answered later, so no answer depends on it."""
MAX_TIMES = 100
"""How often a question in a cycle is answered anew before its cycle counts as one without a fixpoint."""
MAX_SIZE = 120
"""A set in a cycle that grows past this size counts the same, if its query bounds what it finds (by ``settle``)."""
_FIRST = (-sys.maxsize, 0)
"""The rank of what was too deep to be answered at once; then comes the last segment of a long chain."""


class _Query(NamedTuple):
    answer: Callable[[], Any]
    bottom: Any
    settle: Callable[[Any], Any] | None

    def settled(self, found: Any) -> Any:
        return found if self.settle is None else self.settle(found)


def asked_once(answer: Callable[[S], T]) -> Callable[[S], T]:
    """Answer a question about a job or a command once: many jobs may run the same script."""
    known: WeakKeyDictionary[S, T] = WeakKeyDictionary()

    @wraps(answer)
    def remembered(subject: S) -> T:
        if subject not in known:
            known[subject] = answer(subject)
        return known[subject]

    return remembered


class Memo:
    """Answers each question once; questions in a cycle get the least fixpoint.

    A question that is asked while it is being answered gives its ``bottom`` (the empty set, usually). Whatever was
    read before it was final is read again when it has changed, until nothing changes. Then each cycle is stored as a
    whole, and what only rests on it is answered anew from final answers. So no answer depends on who asked first, as
    long as answers in a cycle only grow with what they rest on.
    """

    def __init__(self) -> None:
        self._answers: dict[Hashable, Any] = {}
        # All below belongs to the outermost question under way.
        self._open: list[Hashable] = []
        self._partial: list[bool] = []
        """For each open question: has it read a bottom?"""
        self._queries: dict[Hashable, _Query] = {}
        self._found: dict[Hashable, Any] = {}
        """Answers that may still change."""
        self._reads: dict[Hashable, dict[Hashable, None]] = {}
        self._readers: dict[Hashable, dict[Hashable, None]] = {}
        self._rank: dict[Hashable, tuple[int, int]] = {}
        """The order to answer anew in: what others rest on comes first."""
        self._times: dict[Hashable, int] = {}
        self._stale: set[Hashable] = set()
        self._too_large: set[Hashable] = set()
        self._queue: list[tuple[tuple[int, int], int, Hashable]] = []
        self._next: list[Hashable] = []
        self._turn = _FIRST
        self._segment = 0
        self._counter = count()

    @property
    def partial(self) -> bool:
        """Has the open question read a bottom, so that it will be asked again? What it lacks may only be late then."""
        return bool(self._partial) and self._partial[-1]

    def ask(self, question: Hashable, answer: Callable[[], T], bottom: T, settle: Callable[[T], T] | None = None) -> T:
        """The answer to ``question``, cached or from ``answer``; ``settle`` makes what was found final."""
        if question in self._answers:
            return self._answers[question]  # type: ignore[no-any-return]
        if not self._open:
            try:
                self._solve(question, _Query(answer, bottom, settle))
            finally:
                self._clear()
            return self._answers[question]  # type: ignore[no-any-return]
        if question not in self._found:
            self._queries[question] = _Query(answer, bottom, settle)
            self._found[question] = bottom
            if len(self._open) < MAX_DEPTH:
                self._evaluate(question)
                if question in self._answers:
                    return self._answers[question]  # type: ignore[no-any-return]
            else:
                self._push(question)
        reader = self._open[-1]
        self._reads[reader][question] = None
        self._readers.setdefault(question, {})[reader] = None
        found: T = self._found[question]
        if found == bottom:
            self._partial[-1] = True
        return found

    # -- solving -------------------------------------------------------------------------------------------------------

    def _solve(self, question: Hashable, query: _Query) -> None:
        self._queries[question], self._found[question] = query, query.bottom
        self._evaluate(question)
        while self._found:
            self._settle_down()
            for cycle in self._cycles():
                self._store(cycle)

    def _clear(self) -> None:
        if not self._rank and not self._queries:
            return  # nothing but questions that were final at once
        for state in (self._queries, self._found, self._reads, self._readers, self._rank, self._times):
            state.clear()
        self._stale.clear()
        self._too_large.clear()
        self._open, self._partial, self._queue, self._next = [], [], [], []
        self._turn, self._segment = _FIRST, 0

    def _evaluate(self, question: Hashable) -> None:
        """Answer a question from what is known now; final if all is final that it rests on."""
        query = self._queries[question]
        times = self._times[question] = self._times.get(question, 0) + 1
        if times > 1:
            for read in self._reads[question]:
                self._readers.get(read, {}).pop(question, None)
            self._stale.discard(question)
        reads = self._reads[question] = {}
        self._open.append(question)
        self._partial.append(False)
        found = query.answer()
        self._open.pop()
        self._partial.pop()
        if not reads:
            self._final(question, query.settled(found))
            return
        if question not in self._rank:
            self._rank[question] = (-self._segment, len(self._rank))
            if question in self._stale:
                self._push(question)
        if query.settle is not None and isinstance(found, Sized) and len(found) > MAX_SIZE:
            # Nobody reads what grows so large: each set of a large cycle would hold everything in it.
            self._too_large.add(question)
            found = query.bottom
        if found != self._found[question]:
            self._found[question] = found
            self._touch(question)

    def _final(self, question: Hashable, answer: Any) -> None:
        self._answers[question] = answer
        if question in self._readers:
            self._touch(question)
            del self._readers[question]
        del self._found[question], self._queries[question], self._reads[question], self._times[question]

    def _touch(self, question: Hashable) -> None:
        """Have those who read ``question`` answered anew."""
        for reader in self._readers.get(question, ()):
            if reader not in self._stale:
                self._stale.add(reader)
                if reader in self._rank:
                    self._push(reader)

    def _push(self, question: Hashable) -> None:
        """Queue a question for this round, or for the next one if its turn in this one is over."""
        rank = self._rank.get(question, _FIRST)
        if rank < self._turn and rank != _FIRST:
            self._next.append(question)
        else:
            heapq.heappush(self._queue, (rank, next(self._counter), question))

    def _settle_down(self) -> None:
        """Answer anew what read something that has changed since, in rounds, until nothing changes."""
        while self._queue or self._next:
            if not self._queue:
                self._turn, again, self._next = _FIRST, self._next, []
                for question in again:
                    self._push(question)
            self._turn, _, question = heapq.heappop(self._queue)
            if question not in self._found:
                continue
            if question not in self._rank:
                self._segment += 1
                if question not in self._times:
                    self._evaluate(question)
            elif question in self._stale and not self._diverges(question):
                self._evaluate(question)
        self._turn = _FIRST

    def _diverges(self, question: Hashable) -> bool:
        return self._times[question] > MAX_TIMES or question in self._too_large

    def _store(self, cycle: list[Hashable]) -> None:
        """Make the answers of a cycle final, or answer the one question that is in none."""
        members = [question for question in cycle if question in self._found]
        if len(cycle) == 1 and (not members or cycle[0] not in self._reads[cycle[0]]):
            for question in members:
                self._evaluate(question)
            return
        if any(self._diverges(question) for question in members):
            found = self._without_cycle(members)
        else:
            found = {question: self._found[question] for question in members}
        for question in members:
            self._final(question, self._queries[question].settled(found[question]))

    def _without_cycle(self, members: list[Hashable]) -> dict[Hashable, Any]:
        """What the members of a cycle without a fixpoint find if nothing comes round."""
        for question in members:
            self._found[question] = self._queries[question].bottom
        found = {}
        for question in members:
            self._open.append(question)
            self._partial.append(False)
            found[question] = self._queries[question].answer()
            self._open.pop()
            self._partial.pop()
        return found

    def _cycles(self) -> list[list[Hashable]]:
        """The strongly connected components of what is not final, each after those that it rests on (Tarjan)."""
        index: dict[Hashable, int] = {}
        low: dict[Hashable, int] = {}
        place: dict[Hashable, int] = {}
        stack: list[Hashable] = []
        components: list[list[Hashable]] = []
        for root in self._found:
            work: list[tuple[Hashable, Iterator[Hashable]]] = []
            if root not in index:
                self._visit(root, index, low, place, stack, work)
            while work:
                node, reads = work[-1]
                for read in reads:
                    if read not in index:
                        self._visit(read, index, low, place, stack, work)
                        break
                    if read in place:
                        low[node] = min(low[node], index[read])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == index[node]:
                        component = stack[place[node] :]
                        del stack[place[node] :]
                        for member in component:
                            del place[member]
                        components.append(component)
        return components

    def _visit(
        self,
        node: Hashable,
        index: dict[Hashable, int],
        low: dict[Hashable, int],
        place: dict[Hashable, int],
        stack: list[Hashable],
        work: list[tuple[Hashable, Iterator[Hashable]]],
    ) -> None:
        index[node] = low[node] = len(index)
        place[node] = len(stack)
        stack.append(node)
        work.append((node, iter([read for read in self._reads[node] if read in self._found])))
