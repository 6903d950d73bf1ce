"""The least fixpoint of questions that depend on each other."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterator, Sized
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from gpulint.reads import Entry, Read, Rests, rests_of

if TYPE_CHECKING:
    from gpulint.query import Db

Question = tuple[Callable[..., Any], tuple[Any, ...]]
"""A query's function and its arguments."""

MAX_DEPTH = 16
"""Most questions open inside each other. What is asked deeper is answered later, so no answer depends on it."""
MAX_TIMES = 100
"""How often a question in a cycle is answered anew before its cycle counts as one without a fixpoint."""
MAX_SIZE = 120
"""A set in a cycle that grows past this size counts the same, if its query bounds what it finds (by ``settle``)."""
_FIRST = (-sys.maxsize, 0)
"""The rank of what was too deep to be answered at once; then comes the last segment of a long chain."""


Settle = Callable[..., Any]
"""Makes what was found for a question final; it is called with that and the question's arguments."""


class _Query(NamedTuple):
    keeper: Any
    bottom: Any
    settle: Settle | None

    def settled(self, found: Any, question: Question) -> Any:
        return found if self.settle is None else self.settle(found, *question[1])


class Solver:
    """Answers one question and all that it rests on; questions in a cycle get the least fixpoint.

    A question that is asked while it is being answered gives its ``bottom`` (the empty set, usually). Whatever was
    read before it was final is read again when it has changed, until nothing changes. Then each cycle is stored as a
    whole, and what only rests on it is answered anew from final answers. So no answer depends on who asked first, as
    long as answers in a cycle only grow with what they rest on.

    An answer rests on all that was read each time that it was found, and an answer in a cycle on what each of the
    cycle rests on.
    """

    def __init__(self, db: Db) -> None:
        self._db = db
        self._open: list[Question] = []
        self._partial: list[bool] = []
        """For each open question: has it read a bottom?"""
        self._queries: dict[Question, _Query] = {}
        self._found: dict[Question, Any] = {}
        """Answers that may still change."""
        self._rests: dict[Question, list[Any]] = {}
        """All that was read for a question: inputs, final answers, questions."""
        self._reads: dict[Question, dict[Question, None]] = {}
        self._readers: dict[Question, dict[Question, None]] = {}
        self._rank: dict[Question, tuple[int, int]] = {}
        """The order to answer anew in: what others rest on comes first."""
        self._times: dict[Question, int] = {}
        self._stale: set[Question] = set()
        self._too_large: set[Question] = set()
        self._queue: list[tuple[tuple[int, int], int, Question]] = []
        self._next: list[Question] = []
        self._turn = _FIRST
        self._segment = 0
        self._counter = count()

    @property
    def partial(self) -> bool:
        """Has the open question read a bottom, so that it will be asked again? What it lacks may only be late then."""
        return bool(self._partial) and self._partial[-1]

    def ask(self, question: Question, keeper: Any, bottom: Any, settle: Settle | None) -> Any:
        """The answer to a question that is asked for another one, perhaps one that may still change."""
        if question not in self._found:
            self._queries[question] = _Query(keeper, bottom, settle)
            self._found[question] = bottom
            if len(self._open) < MAX_DEPTH:
                self._evaluate(question)
                entry = self._db.known(question)
                if entry is not None:
                    self._db.reads.append(entry)
                    return entry.value
            else:
                self._push(question)
        self._db.reads.append(question)
        reader = self._open[-1]
        self._reads[reader][question] = None
        self._readers.setdefault(question, {})[reader] = None
        found = self._found[question]
        if found == bottom:
            self._partial[-1] = True
        return found

    def solve(self, question: Question, keeper: Any, bottom: Any, settle: Settle | None) -> Entry:
        """The final answer to a question."""
        self._queries[question], self._found[question] = _Query(keeper, bottom, settle), bottom
        self._evaluate(question)
        while self._found:
            self._settle_down()
            for cycle in self._cycles():
                self._store(cycle)
        entry = self._db.known(question)
        assert entry is not None
        return entry

    def clear(self) -> None:
        """Forget everything, to answer the next question."""
        if not self._rank and not self._queries:
            return  # nothing but questions that were final at once
        for state in (self._queries, self._found, self._rests, self._reads, self._readers, self._rank, self._times):
            state.clear()
        self._stale.clear()
        self._too_large.clear()
        self._open, self._partial, self._queue, self._next = [], [], [], []
        self._turn, self._segment = _FIRST, 0

    def _answer(self, question: Question) -> Any:
        """Answer a question from what is known now, recording what it reads."""
        db, (function, args) = self._db, question
        outer, reads = db.reads, list[Any]()
        db.reads = reads
        self._open.append(question)
        self._partial.append(False)
        try:
            return function(self._queries[question].keeper, *args)
        except BaseException:
            outer.extend(reads)
            self._drop(question)
            raise
        finally:
            db.reads = outer
            self._open.pop()
            self._partial.pop()
            if question in self._found:
                before = self._rests.get(question)
                self._rests[question] = reads if before is None else [*{*before, *reads}]

    def _drop(self, question: Question) -> None:
        """Forget a question that cannot be answered: whoever asks it gets the same exception."""
        for state in (self._queries, self._found, self._rests, self._times, self._rank):
            state.pop(question, None)
        for read in self._reads.pop(question, ()):
            self._readers.get(read, {}).pop(question, None)
        self._readers.pop(question, None)
        self._stale.discard(question)

    def _evaluate(self, question: Question) -> None:
        """Answer a question from what is known now; final if all is final that it rests on."""
        query = self._queries[question]
        times = self._times[question] = self._times.get(question, 0) + 1
        if times > 1:
            for read in self._reads[question]:
                self._readers.get(read, {}).pop(question, None)
            self._stale.discard(question)
        reads = self._reads[question] = {}
        found = self._answer(question)
        if not reads:
            self._final(question, query.settled(found, question), rests_of(self._resolved([question])))
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

    def _resolved(self, questions: list[Question]) -> Iterator[Read]:
        """What some questions rest on; of others that are not final, what those have read so far."""
        seen, todo = set(questions), list(questions)
        while todo:
            for read in self._rests.get(todo.pop(), ()):
                if not isinstance(read, tuple):
                    yield read
                elif read not in seen:
                    seen.add(read)
                    if (entry := self._db.known(read)) is not None:
                        yield entry
                    else:
                        todo.append(read)

    def _final(self, question: Question, answer: Any, rests: Rests) -> None:
        self._db.put(*question, Entry(answer, rests))
        if question in self._readers:
            self._touch(question)
            del self._readers[question]
        del self._found[question], self._queries[question], self._reads[question], self._times[question]
        del self._rests[question]

    def _touch(self, question: Question) -> None:
        """Have those who read ``question`` answered anew."""
        for reader in self._readers.get(question, ()):
            if reader not in self._stale:
                self._stale.add(reader)
                if reader in self._rank:
                    self._push(reader)

    def _push(self, question: Question) -> None:
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

    def _diverges(self, question: Question) -> bool:
        return self._times[question] > MAX_TIMES or question in self._too_large

    def _store(self, cycle: list[Question]) -> None:
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
        rests = rests_of(self._resolved(members))
        for question in members:
            self._final(question, self._queries[question].settled(found[question], question), rests)

    def _without_cycle(self, members: list[Question]) -> dict[Question, Any]:
        """What the members of a cycle without a fixpoint find if nothing comes round."""
        for question in members:
            self._found[question] = self._queries[question].bottom
        return {question: self._answer(question) for question in members}

    def _cycles(self) -> list[list[Question]]:
        """The strongly connected components of what is not final, each after those that it rests on (Tarjan)."""
        index: dict[Question, int] = {}
        low: dict[Question, int] = {}
        place: dict[Question, int] = {}
        stack: list[Question] = []
        components: list[list[Question]] = []
        for root in self._found:
            work: list[tuple[Question, Iterator[Question]]] = []
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
        node: Question,
        index: dict[Question, int],
        low: dict[Question, int],
        place: dict[Question, int],
        stack: list[Question],
        work: list[tuple[Question, Iterator[Question]]],
    ) -> None:
        index[node] = low[node] = len(index)
        place[node] = len(stack)
        stack.append(node)
        work.append((node, iter([read for read in self._reads[node] if read in self._found])))
