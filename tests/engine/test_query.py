"""Cached answers are the least fixpoint, whoever asks first, for work that grows with the questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulint.fixpoint import MAX_DEPTH
from gpulint.query import Db, cyclic, query
from gpulint.reads import Input, StoredQuery, followed

Graph = Mapping[int, Sequence[int]]


class Reachable:
    """Which marked numbers each number of a graph leads to, asked of a query."""

    def __init__(self, graph: Graph, marked: Iterable[int]) -> None:
        self.graph, self.marked = graph, frozenset(marked)
        self.db = Db()
        self.work = 0

    @cyclic(frozenset[int]())
    def ask(self, number: int) -> frozenset[int]:
        self.work += 1
        return (self.marked & {number}).union(*(self.ask(other) for other in self.graph[number]))


def reached(graph: Graph, start: int) -> set[int]:
    seen, todo = {start}, [start]
    while todo:
        for other in graph[todo.pop()]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


@st.composite
def graphs(draw: st.DrawFn) -> dict[int, list[int]]:
    size = draw(st.integers(1, 3 * MAX_DEPTH))
    return {one: draw(st.lists(st.integers(0, size - 1), max_size=3)) for one in range(size)}


@given(graphs(), st.sets(st.integers(0, 3 * MAX_DEPTH)), st.randoms(use_true_random=False))
def test_each_answer_is_the_least_fixpoint(graph: dict[int, list[int]], marked: set[int], chance: object) -> None:
    order = list(graph)
    chance.shuffle(order)  # type: ignore[attr-defined]
    answers = Reachable(graph, marked)
    for number in order:
        assert answers.ask(number) == reached(graph, number) & marked


@pytest.mark.parametrize(
    "graph",
    [
        {one: [one + 1] for one in range(3000)} | {3000: []},
        {one: [one + 1] * 3 for one in range(500)} | {500: []},
        {one: [(one + 1) % 1000] for one in range(1000)},
        {one: [(one + 1) % 300, (one + 7) % 300, (one + 31) % 300] for one in range(300)},
        {one: list(range(100)) for one in range(100)},
    ],
    ids=["chain", "fan", "ring", "three rings", "all call all"],
)
def test_the_work_grows_with_the_questions(graph: dict[int, list[int]]) -> None:
    last = len(graph) - 1
    answers = Reachable(graph, [last])
    assert all(last in answers.ask(number) for number in graph)
    assert answers.work <= 5 * len(graph)


class Endless:
    """Two questions whose answers grow with each other for ever."""

    def __init__(self) -> None:
        self.db = Db()

    @cyclic("")
    def longer(self, name: str) -> str:
        return self.longer({"a": "b", "b": "a"}[name]) + name


def test_a_cycle_without_a_fixpoint_ends_the_same_for_every_asker() -> None:
    def asked(*order: str) -> dict[str, str]:
        endless = Endless()
        return {name: endless.longer(name) for name in order}

    assert asked("a", "b") == asked("b", "a") == {"a": "a", "b": "b"}


class Fragile:
    """A question that cannot be answered until it is mended."""

    def __init__(self) -> None:
        self.db = Db()
        self.broken = True

    @cyclic("")
    def outer(self) -> str:
        return self.inner()

    @cyclic("")
    def inner(self) -> str:
        if self.broken:
            raise ValueError
        return "known"


def test_an_error_leaves_the_answers_usable() -> None:
    fragile = Fragile()
    with pytest.raises(ValueError):
        fragile.outer()
    fragile.broken = False
    assert fragile.outer() == "known"


class Inputs:
    """Numbers that rest on inputs, some of them through a cycle."""

    def __init__(self) -> None:
        self.db = Db()

    @query
    def first(self) -> int:
        self.db.read("number", (1,))
        return 1

    @cyclic(0)
    def even(self, number: int) -> int:
        self.db.read("number", (number,))
        return max(self.first(), self.odd(number) if number < 10 else 0)

    @cyclic(0)
    def odd(self, number: int) -> int:
        return self.even(number + 1) if number % 3 else self.even(number)


def read_by(inputs: Inputs, function: str, *args: int) -> set[object]:
    entry = inputs.db.record(StoredQuery("test", print), (), lambda: getattr(inputs, function)(*args))
    return {read.key[0] for read in followed(entry) if isinstance(read, Input)}


class Contained(Reachable):
    """An error of a part costs an answer that part alone, once it is recorded that answers rest on it."""

    @cyclic(frozenset[int]())
    def ask(self, number: int) -> frozenset[int]:
        found = frozenset({number})
        for other in self.graph[number]:
            try:
                found |= self.ask(other)
            except ValueError:
                self.db.keeps_reads = True
        if not self.graph[number] or number in self.marked:
            raise ValueError
        return found


@pytest.mark.parametrize("keeps_reads", [False, True])
def test_an_error_in_a_cycle_is_contained(keeps_reads: bool) -> None:
    answers = Contained({0: [1], 1: [0]}, [1])
    answers.db.keeps_reads = keeps_reads
    assert answers.ask(0) == {0}


def test_an_answer_rests_on_what_others_read_for_it_also_when_it_was_known() -> None:
    inputs = Inputs()
    assert read_by(inputs, "even", 8) == {1, 8, 9}
    assert read_by(inputs, "even", 8) == {1, 8, 9}
    assert read_by(inputs, "odd", 9) == {1, 9}
    assert read_by(inputs, "first") == {1}


class Refusing(Inputs):
    """A question in a cycle that cannot be answered, asked by one that goes on without it."""

    @cyclic(0)
    def around(self, number: int) -> int:
        self.db.read("number", (number,))
        if self.around(1 - number) == 0 and number == 1:
            raise ValueError
        return number

    def without(self) -> int:
        try:
            return self.around(0)
        except ValueError:
            return -1


def test_what_goes_on_without_an_answer_rests_on_what_was_read_for_it() -> None:
    assert read_by(Refusing(), "without") == {0, 1}
