"""Queries: memoised pure functions whose reads are recorded.

A query is a function of a keeper (a project, a fact object, a module's index) and hashable arguments. Its answer is
computed once. While it is computed, all that it reads is recorded: inputs (the content of a file, the files that hold
a word, the names in a folder) and the answers of other queries, also those that were known already. So for any answer
it can be told which changes of the tree may change it.

Queries that may ask themselves, through others or not, name a ``bottom`` and get the least fixpoint (see
:mod:`gpulint.fixpoint`). All others are computed apart from the cycle that asks them, so that what is kept never
rests on an answer that may still change.

Answers of ``stored`` queries are plain data, fit for JSON. They are what a change is compared with: where such an
answer stays the same, all that rests on it stays valid. They outlive the process (see :mod:`gpulint.traces`).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, MutableSequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

from gpulint.fixpoint import Question, Settle, Solver
from gpulint.reads import NOTHING, Earlier, Entry, Input, Read, Rests, StoredEntry, StoredQuery, rests_of
from gpulint.revisions import Previous

if TYPE_CHECKING:
    from gpulint.peers import Peers

NOWHERE: MutableSequence[Any] = deque(maxlen=0)
"""Takes reads that nobody wants to know."""
LOOKUPS: dict[str, Callable[..., Any]] = {}
"""What answers an input of some kind, given what keeps it and the input's key."""
STORED: dict[str, StoredQuery] = {}
"""By name; names are part of what is kept on disk."""


class Db:
    """The answers that belong to one tree, or to one module."""

    def __init__(self) -> None:
        self.tables: defaultdict[Callable[..., Any], dict[tuple[Any, ...], Entry]] = defaultdict(dict)
        self.reads: MutableSequence[Any] = NOWHERE
        """Where the open query's reads go."""
        self.tracks_syntax = False
        """Whether the syntax of a file is an input of its own, which stays valid over edits of comments."""
        self.keeps_reads = True
        """Whether answers keep what they rest on: somebody may ask, or a failure is told by all that rest on it."""
        self.solver: Solver | None = None
        """Solves the cycle in which the open query stands."""
        self.earlier: Earlier | None = None
        """Answers of an earlier run."""
        self.done: list[StoredEntry] = []
        """The units of work that a run has done, with what their reports rest on."""
        self.spent = 0.0
        """CPU seconds that they took, with the check of what earlier runs have found."""
        self.tell: Callable[[Any], Any] | None = None
        self.told: list[Any] = []
        """What other processes tell of theirs, if somebody wants to keep them (see :mod:`gpulint.traces`)."""
        self.peers: Peers | None = None
        """Other processes that work on the same tree now."""
        self.previous: Previous | None = None
        """Answers of this tree before files got another content."""
        self.inputs: defaultdict[str, dict[tuple[Hashable, ...], Input]] = defaultdict(dict)
        """By kind and key."""
        self._contents: dict[int, Input] = {}
        self._paths: list[Path] = []
        self._open: set[Question] = set()
        self._idle: Solver | None = None

    @property
    def partial(self) -> bool:
        """Whether the open question has read a bottom, so that it will be asked again."""
        return self.solver is not None and self.solver.partial

    def read(self, kind: str, key: tuple[Hashable, ...]) -> Input | None:
        """Record that an input is read, and return it if somebody wants to know."""
        if self.reads is NOWHERE or not self.keeps_reads:
            return None
        self.reads.append(found := self.input(kind, key))
        return found

    def read_content(self, path: Path) -> None:
        """The same for the content of a file, which is read most."""
        if self.reads is not NOWHERE and self.keeps_reads:
            found = self._contents.get(id(path))
            if found is None:
                found = self._contents[id(path)] = self.input("content", (path,))
                self._paths.append(path)  # so that no other path gets its number
            self.reads.append(found)

    def read_syntax(self, path: Path) -> None:
        """The same for the syntax tree of a file; who reads its text besides reads the content too."""
        if self.tracks_syntax:
            self.read("syntax", (path,))
        else:
            self.read_content(path)

    def rests(self, reads: Iterable[Read]) -> Rests:
        """Return what an answer keeps of what was read for it."""
        return rests_of(reads) if self.keeps_reads else NOTHING

    def revise(self, keeper: Keeper, gone: Iterable[Input], *, counts: bool = True) -> None:
        """Go on with other values of some inputs. What was found is checked before it is used again, for two revisions
        that count."""
        for item in gone:
            item.is_current = False
            self.inputs[item.kind].pop(item.key, None)
        self._contents = {number: item for number, item in self._contents.items() if item.is_current}
        self.previous = Previous(self, keeper, self.previous, counts=counts)
        self.tables, self.done = defaultdict(dict), []

    def input(self, kind: str, key: tuple[Hashable, ...]) -> Input:
        """An input, of which there is one for each kind and key."""
        table = self.inputs[kind]
        found = table.get(key)
        if found is None:
            found = table[key] = Input(kind, key)
        return found

    def compute(self, function: Callable[..., Any], keeper: Any, args: tuple[Any, ...]) -> Any:
        """Answer a query that is in no cycle of its own."""
        question = function, args
        if question in self._open:
            return function(keeper, *args)  # whoever asks first keeps it
        if self.previous is not None and (entry := self.previous.get(function, args)) is not None:
            self.reads.append(entry)
            return entry.value
        self._open.add(question)
        outer, self.reads = self.reads, []
        solver, self.solver = self.solver, None
        try:
            value = function(keeper, *args)
            outer.append(self.put(function, args, Entry(value, self.rests(self.reads))))
            return value
        except BaseException:
            outer.extend(self.reads)
            raise
        finally:
            self._open.discard(question)
            self.reads, self.solver = outer, solver

    def solve(
        self,
        function: Callable[..., Any],
        keeper: Any,
        args: tuple[Any, ...],
        bottom: Any,
        settle: Settle | None,
    ) -> Any:
        """Answer a query that may be in a cycle."""
        if self.solver is not None:
            return self.solver.ask((function, args), keeper, bottom, settle)
        if self.previous is not None and (entry := self.previous.get(function, args)) is not None:
            self.reads.append(entry)
            return entry.value
        solver, self._idle = self._idle or Solver(self), None
        self.solver = solver
        try:
            entry = solver.solve((function, args), keeper, bottom, settle)
        finally:
            self.solver = None
        self._idle = solver  # nothing is left in it, unless something was raised
        self.reads.append(entry)
        return entry.value

    def put(self, function: Callable[..., Any], args: tuple[Any, ...], entry: Entry) -> Entry:
        """Keep an answer."""
        self.tables[function][args] = entry
        return entry

    def known(self, question: Question) -> Entry | None:
        """The answer to a question, if it is final."""
        return self.tables[question[0]].get(question[1])

    def stored(self, query: StoredQuery, keeper: Any, args: tuple[Any, ...]) -> StoredEntry:
        """Answer a stored query: by what an earlier run found if that still holds, else anew."""

        def compute() -> StoredEntry:
            return self.record(query, args, lambda: query.compute(keeper, *args))

        entry = self.revised(query, args)
        if entry is None and self.earlier is not None:
            entry = self.earlier.get(query, args)
        if entry is not None:
            self.reads.append(entry)
        else:
            entry = compute() if self.peers is None else self.peers.answer(query, args, compute)
        self.put(query.compute, args, entry)
        return entry

    def revised(self, query: StoredQuery, args: tuple[Any, ...]) -> StoredEntry | None:
        """Return what was found before files of the tree changed, if that still holds."""
        entry = self.previous.get(query.compute, args) if self.previous is not None else None
        assert entry is None or isinstance(entry, StoredEntry)
        return entry

    def asked(self, query: StoredQuery, keeper: Any, args: tuple[Any, ...]) -> StoredEntry:
        """The answer to a stored query, known or not; whatever is open does not rest on it."""
        entry = self.known((query.compute, args))
        assert entry is None or isinstance(entry, StoredEntry)
        outer, self.reads = self.reads, NOWHERE
        try:
            return entry or self.stored(query, keeper, args)
        finally:
            self.reads = outer

    def record(self, query: StoredQuery, args: tuple[Any, ...], answer: Callable[[], Any]) -> StoredEntry:
        """Ask ``answer`` and record what it reads."""
        outer, self.reads = self.reads, []
        solver, self.solver = self.solver, None
        try:
            entry = StoredEntry(query, args, answer(), self.rests(self.reads))
            outer.append(entry)
            return entry
        except BaseException:
            outer.extend(self.reads)
            raise
        finally:
            self.reads, self.solver = outer, solver


class Keeper(Protocol):
    """What answers belong to."""

    @property
    def db(self) -> Db: ...


S = TypeVar("S")
K = TypeVar("K", bound=Keeper)
P = ParamSpec("P")
T = TypeVar("T")


def query(function: Callable[Concatenate[K, P], T]) -> Callable[Concatenate[K, P], T]:
    """Memoise a pure function of a keeper and hashable arguments, which never asks itself."""

    @wraps(function)
    def ask(keeper: Any, *args: Any) -> Any:
        db = keeper.db
        entry = db.tables[function].get(args)
        if entry is None:
            return db.compute(function, keeper, args)
        db.reads.append(entry)
        return entry.value

    return cast("Callable[Concatenate[K, P], T]", ask)


class query_property(Generic[T]):
    """The same for a property of an object that is itself an answer, such as a program."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.__doc__ = function.__doc__
        self._answer = lambda subject, _: function(subject)

    def __get__(self, subject: Any, owner: type | None = None) -> T:
        db = subject.db
        entry = db.tables[self._answer].get((subject,))
        if entry is None:
            return db.compute(self._answer, subject, (subject,))  # type: ignore[no-any-return]
        db.reads.append(entry)
        return entry.value  # type: ignore[no-any-return]


def cyclic(
    bottom: T, settle: Callable[..., T] | None = None
) -> Callable[[Callable[Concatenate[K, P], T]], Callable[Concatenate[K, P], T]]:
    """Memoise a pure function that may ask itself; answers in a cycle grow from ``bottom`` to the least fixpoint, and
    ``settle`` makes what was found (given with the arguments) final."""

    def decorate(function: Callable[Concatenate[K, P], T]) -> Callable[Concatenate[K, P], T]:
        @wraps(function)
        def ask(keeper: Any, *args: Any) -> Any:
            db = keeper.db
            entry = db.tables[function].get(args)
            if entry is None:
                return db.solve(function, keeper, args, bottom, settle)
            db.reads.append(entry)
            return entry.value

        return cast("Callable[Concatenate[K, P], T]", ask)

    return decorate


def lookup(kind: str) -> Callable[[Callable[Concatenate[K, P], T]], Callable[Concatenate[K, P], T]]:
    """Make a method of a tree (or of its words) an input: what it reads itself is not recorded, but its own answer,
    which is plain data. So what rests on it stays valid as long as it answers the same."""

    def decorate(function: Callable[Concatenate[K, P], T]) -> Callable[Concatenate[K, P], T]:
        LOOKUPS[kind] = function

        @wraps(function)
        def ask(keeper: Any, *args: Any) -> Any:
            db = keeper.db
            outer = db.reads
            if outer is NOWHERE:
                return function(keeper, *args)  # type: ignore[call-arg]
            found = db.read(kind, args)
            db.reads = NOWHERE
            try:
                value = function(keeper, *args)  # type: ignore[call-arg]
            finally:
                db.reads = outer
            if found is not None:
                found.value = value
            return value

        return cast("Callable[Concatenate[K, P], T]", ask)

    return decorate


def stored(name: str, module: str = "") -> Callable[[Callable[Concatenate[K, P], T]], Callable[Concatenate[K, P], T]]:
    """Memoise a pure function of a project whose arguments and answers are plain data (strings, numbers, None and
    tuples of these), under a name."""

    def decorate(function: Callable[Concatenate[K, P], T]) -> Callable[Concatenate[K, P], T]:
        whole = f"{module or function.__module__}|{name}"
        made = STORED[whole] = StoredQuery(whole, function)

        @wraps(function)
        def ask(keeper: Any, *args: Any) -> Any:
            db = keeper.db
            entry = db.tables[function].get(args)
            if entry is None:
                return db.stored(made, keeper, args).value
            db.reads.append(entry)
            return entry.value

        return cast("Callable[Concatenate[K, P], T]", ask)

    return decorate


def asked_once(answer: Callable[[S], T]) -> Callable[[S], T]:
    """Answer a question about a job or a command from its own text once: many jobs may run the same script."""
    known: WeakKeyDictionary[S, T] = WeakKeyDictionary()

    @wraps(answer)
    def remembered(subject: S) -> T:
        if subject not in known:
            known[subject] = answer(subject)
        return known[subject]

    return remembered
