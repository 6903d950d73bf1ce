"""Cached answers are the least fixpoint, whoever asks first, for work that grows with the questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulint.memo import MAX_DEPTH, Memo

Graph = Mapping[int, Sequence[int]]


class Reachable:
    """Which marked numbers each number of a graph leads to, asked of a ``Memo``."""

    def __init__(self, graph: Graph, marked: Iterable[int]) -> None:
        self.graph, self.marked = graph, frozenset(marked)
        self.memo = Memo()
        self.work = 0

    def ask(self, number: int) -> frozenset[int]:
        return self.memo.ask(number, lambda: self._find(number), frozenset())

    def _find(self, number: int) -> frozenset[int]:
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


def test_a_cycle_without_a_fixpoint_ends_the_same_for_every_asker() -> None:
    def longer(memo: Memo, name: str) -> str:
        other = {"a": "b", "b": "a"}[name]
        return memo.ask(name, lambda: longer(memo, other) + name, "")

    def asked(*order: str) -> dict[str, str]:
        memo = Memo()
        return {name: longer(memo, name) for name in order}

    assert asked("a", "b") == asked("b", "a") == {"a": "a", "b": "b"}


def test_an_error_leaves_the_cache_usable() -> None:
    memo = Memo()

    def fail() -> str:
        raise ValueError

    with pytest.raises(ValueError):
        memo.ask("outer", lambda: memo.ask("inner", fail, ""), "")
    assert memo.ask("outer", lambda: memo.ask("inner", lambda: "known", ""), "") == "known"
