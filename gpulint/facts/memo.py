"""Cached answers to questions that ask each other, cycles included."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

MAX_DEPTH = 48
MAX_STEPS = 600


class Memo:
    """Answers each question once and ends cycles.

    A question that is asked again while it is being answered gets its fallback. An answer that leaned on such a
    fallback of an outer question is only good inside of that question, so it is not kept; this way the order of
    questions never decides an answer. Depth and steps of one outermost question are bounded, and past the bounds
    the fallback counts.
    """

    def __init__(self) -> None:
        self._answers: dict[Hashable, Any] = {}
        self._open: dict[Hashable, int] = {}
        self._lowest: float = float("inf")
        """Depth of the outermost open question whose fallback was used since the current one opened."""
        self._steps = 0

    def ask(self, question: Hashable, answer: Callable[[], T], fallback: T) -> T:
        """The answer to ``question``, from the cache or by calling ``answer``."""
        if question in self._answers:
            return self._answers[question]  # type: ignore[no-any-return]
        if not self._open:
            self._steps, self._lowest = 0, float("inf")
        if question in self._open:
            self._lowest = min(self._lowest, self._open[question])
            return fallback
        self._steps += 1
        if len(self._open) >= MAX_DEPTH or self._steps > MAX_STEPS:
            self._lowest = -1
            return fallback
        outer, self._lowest = self._lowest, float("inf")
        depth = len(self._open)
        self._open[question] = depth
        try:
            found = answer()
        finally:
            del self._open[question]
        if self._lowest >= depth:
            self._lowest = float("inf")
        if depth == 0 or self._lowest == float("inf"):
            self._answers[question] = found
        self._lowest = min(outer, self._lowest)
        return found
