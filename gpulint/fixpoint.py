"""The least fixpoint of questions that depend on each other."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import count
from typing import TYPE_CHECKING, Any

from gpulint.reads import NOTHING, Entry, Read, Rests

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


class State:
    """A question whose answer may still change."""

    __slots__ = (
        "bottom", "found", "is_stale", "is_too_large", "keeper", "question", "rank", "readers", "reads", "rests",
        "saw_bottom", "settle", "times",
    )  # fmt: skip

    def __init__(self, question: Question, keeper: Any, bottom: Any, settle: Settle | None) -> None:
        self.question, self.keeper, self.bottom, self.settle = question, keeper, bottom, settle
        self.found = bottom
        self.times = 0
        """How often it was answered."""
        self.saw_bottom = False
        """Whether it has read a bottom, so that it will be asked again."""
        self.reads: dict[State, None] = {}
        """What it read, when it was answered last, that may still change."""
        self.readers: dict[State, None] = {}
        self.rests: list[Read | State] = []
        """All that was read for it, each time."""
        self.rank: tuple[int, int] | None = None
        """The order to answer anew in: what others rest on comes first."""
        self.is_stale = False
        self.is_too_large = False

    def settled(self, found: Any) -> Any:
        """Return what was found as a final answer."""
        return found if self.settle is None else self.settle(found, *self.question[1])

    @property
    def diverges(self) -> bool:
        return self.times > MAX_TIMES or self.is_too_large


def _report(state: State) -> None:
    """Note that a cycle has no fixpoint, in the module that a question is about."""
    for subject in state.question[1]:
        report: Callable[[str], None] | None = getattr(subject, "report_limit", None)
        if report is not None:
            report("values that depend on each other in a cycle do not settle")


def _differs(found: Any, before: Any) -> bool:
    """Return whether an answer is another one; in a cycle, the same values may come in another order each time."""
    if found == before:
        return False
    if type(found) is not tuple or type(before) is not tuple or len(found) != len(before):
        return True
    try:
        return set(found) != set(before)
    except TypeError:  # not hashable
        return True


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
        self._states: dict[Question, State] = {}
        self._open: list[State] = []
        self._queue: list[tuple[tuple[int, int], int, State]] = []
        self._next: list[State] = []
        self._turn = _FIRST
        self._segment = 0
        self._counter = count()

    @property
    def partial(self) -> bool:
        """Whether the open question has read a bottom, so that it will be asked again. What it lacks may only be late
        then."""
        return bool(self._open) and self._open[-1].saw_bottom

    def ask(self, question: Question, keeper: Any, bottom: Any, settle: Settle | None) -> Any:
        """The answer to a question that is asked for another one, perhaps one that may still change."""
        state = self._states.get(question)
        if state is None:
            previous = self._db.previous
            if previous is not None and (entry := previous.get(*question)) is not None:
                self._db.reads.append(entry)
                return entry.value
            state = self._states[question] = State(question, keeper, bottom, settle)
            if len(self._open) < MAX_DEPTH:
                entry = self._evaluate(state)
                if entry is not None:
                    self._db.reads.append(entry)
                    return entry.value
            else:
                self._push(state)
        self._db.reads.append(state)
        reader = self._open[-1]
        reader.reads[state] = None
        state.readers[reader] = None
        found = state.found
        if found == bottom:
            reader.saw_bottom = True
        return found

    def solve(self, question: Question, keeper: Any, bottom: Any, settle: Settle | None) -> Entry:
        """The final answer to a question."""
        state = self._states[question] = State(question, keeper, bottom, settle)
        outer: Any = self._db.reads
        self._db.reads = []
        try:
            entry = self._evaluate(state)
            while self._states:
                self._settle_down()
                for cycle in self._cycles():
                    self._store(cycle)
        except BaseException:
            outer.extend(self.final_reads(self._db.reads))
            raise
        finally:
            self._db.reads = outer
        entry = entry or self._db.known(question)
        assert entry is not None
        return entry

    def _answer(self, state: State) -> Any:
        """Answer a question from what is known now, recording what it reads."""
        db, (function, args) = self._db, state.question
        outer = db.reads
        reads: list[Any] = []
        db.reads = reads
        state.saw_bottom = False
        self._open.append(state)
        try:
            return function(state.keeper, *args)
        except BaseException:
            outer.extend(reads)
            self._drop(state)
            raise
        finally:
            db.reads = outer
            self._open.pop()
            state.rests = [*{*state.rests, *reads}] if state.rests else reads

    def _drop(self, state: State) -> None:
        """Forget a question that cannot be answered: whoever asks it gets the same exception."""
        self._states.pop(state.question, None)
        for read in state.reads:
            read.readers.pop(state, None)

    def _evaluate(self, state: State) -> Entry | None:
        """Answer a question from what is known now; final if all is final that it rests on."""
        state.times += 1
        if state.times > 1:
            for read in state.reads:
                read.readers.pop(state, None)
            state.reads = {}
            state.is_stale = False
        found = self._answer(state)
        if not state.reads:
            # Most questions end here when they are answered for the first time.
            return self._final(state, found if state.settle is None else state.settled(found), self._rests([state]))
        if state.rank is None:
            state.rank = (-self._segment, next(self._counter))
            if state.is_stale:
                self._push(state)
        if state.settle is not None and isinstance(found, Sized) and len(found) > MAX_SIZE:
            # Nobody reads what grows so large: each set of a large cycle would hold everything in it.
            state.is_too_large = True
            found = state.bottom
        if _differs(found, state.found):
            state.found = found
            self._touch(state)
        return None

    def _rests(self, states: Sequence[State]) -> Rests:
        """Return what the answers to some questions rest on; for others that are not final, what those have read so
        far."""
        if not self._db.keeps_reads:
            return NOTHING
        if len(states) == 1 and State not in map(type, states[0].rests):
            return self._db.rests(states[0].rests)  # type: ignore[arg-type]
        found = [read for state in states for read in state.rests]
        return self._db.rests(self.final_reads(found, set(states)))

    def final_reads(self, reads: Iterable[Read | State], seen: set[State] | None = None) -> list[Read]:
        """Replace what is not final among some reads by what it has read so far; not for those ``seen`` already."""
        found, seen, todo = list[Read](), seen or set(), [*reads]
        while todo:
            read = todo.pop()
            if not isinstance(read, State):
                found.append(read)
            elif read not in seen:
                seen.add(read)
                if (entry := self._db.known(read.question)) is not None:
                    found.append(entry)
                else:
                    todo.extend(read.rests)
        return found

    def _final(self, state: State, answer: Any, rests: Rests) -> Entry:
        function, args = state.question
        entry = self._db.tables[function][args] = Entry(answer, rests)
        if state.readers:
            self._touch(state)
        del self._states[state.question]
        return entry

    def _touch(self, state: State) -> None:
        """Have those who read a question answered anew."""
        for reader in state.readers:
            if not reader.is_stale:
                reader.is_stale = True
                if reader.rank is not None:
                    self._push(reader)

    def _push(self, state: State) -> None:
        """Queue a question for this round, or for the next one if its turn in this one is over."""
        rank = state.rank or _FIRST
        if rank < self._turn and rank != _FIRST:
            self._next.append(state)
        else:
            heapq.heappush(self._queue, (rank, next(self._counter), state))

    def _settle_down(self) -> None:
        """Answer anew what read something that has changed since, in rounds, until nothing changes."""
        while self._queue or self._next:
            if not self._queue:
                self._turn, again, self._next = _FIRST, self._next, []
                for state in again:
                    self._push(state)
            self._turn, _, state = heapq.heappop(self._queue)
            if self._states.get(state.question) is not state:
                continue
            if state.rank is None:
                self._segment += 1
                if not state.times:
                    self._evaluate(state)
            elif state.is_stale and not state.diverges:
                self._evaluate(state)
        self._turn = _FIRST

    def _store(self, cycle: list[State]) -> None:
        """Make the answers of a cycle final, or answer the one question that is in none."""
        members = [state for state in cycle if state.question in self._states]
        if len(cycle) == 1 and (not members or cycle[0] not in cycle[0].reads):
            for state in members:
                self._evaluate(state)
            return
        if any(state.diverges for state in members):
            found = self._without_cycle(members)
        else:
            found = {state: state.found for state in members}
        rests = self._rests(members)
        for state in members:
            self._final(state, state.settled(found[state]), rests)

    def _without_cycle(self, members: list[State]) -> dict[State, Any]:
        """Return what the members of a cycle without a fixpoint find if nothing comes round."""
        for state in members:
            state.found = state.bottom
            _report(state)
        return {state: self._answer(state) for state in members}

    def _cycles(self) -> list[list[State]]:
        """The strongly connected components of what is not final, each after those that it rests on (Tarjan)."""
        index: dict[State, int] = {}
        low: dict[State, int] = {}
        place: dict[State, int] = {}
        stack: list[State] = []
        components: list[list[State]] = []
        for root in self._states.values():
            work: list[tuple[State, Iterator[State]]] = []
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
        node: State,
        index: dict[State, int],
        low: dict[State, int],
        place: dict[State, int],
        stack: list[State],
        work: list[tuple[State, Iterator[State]]],
    ) -> None:
        index[node] = low[node] = len(index)
        place[node] = len(stack)
        stack.append(node)
        work.append((node, iter([read for read in node.reads if read.question in self._states])))
