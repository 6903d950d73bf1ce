"""Which jobs cannot run together, learned from pairs that have been tried.

Every job has a size and every card a limit; the odds that two jobs fail together grow with the sum of their sizes above
the limit (logistic regression). Sizes of a job are those of all cards, so that outcomes on one card tell about the
others. Where footprints are known or estimated, the odds grow with the share of the card that both fill as well, and
sizes are what a job needs beyond its footprint; without footprints, a job that was in no pair counts as small.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

_RIDGE = 0.1
"""Pairs' worth of belief that a job has no size."""
_LOOSE = 1e-3
_ROUNDS = 50
_LONGEST = 3.0
"""Most that a coefficient moves in a round."""
Filled = Callable[[Any, Any, Any], float]
"""Share of a card's memory that a job and another are expected to fill, of (job, other job, card)."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the outcomes taught: sizes by job, limits by card, and the weight of the filled share, in log odds."""

    sizes: dict[Hashable, float]
    limits: dict[Hashable, float]
    weight: float = 0.0
    filled: Filled | None = None

    def risk(self, job: Hashable, other: Hashable, card: Hashable = "") -> float:
        """Probability that both cannot run together on the card, 0 to 1. An unknown card is the strictest known."""
        limit = self.limits.get(card, min(self.limits.values()))
        odds = self.sizes.get(job, 0.0) + self.sizes.get(other, 0.0) - limit
        if self.filled is not None:
            odds += self.weight * (self.filled(job, other, card) - 1)
        return float(1 / (1 + np.exp(-odds)))


def learn_failures(
    tried: Iterable[tuple[Hashable, Hashable, Hashable, bool]], filled: Filled | None = None
) -> Sizes:  # fmt: skip
    """Learn from (job, other job, card, whether they failed together), and the share of the card that each pair fills.

    Raises:
        ValueError: nothing was tried.
    """
    rows = list(tried)
    if not rows:
        raise ValueError("no pairs to learn from")
    jobs = list(dict.fromkeys(job for row in rows for job in row[:2]))
    cards = list(dict.fromkeys(row[2] for row in rows))
    column = {job: number for number, job in enumerate(jobs)}
    table = np.zeros((len(rows), len(jobs) + len(cards) + (filled is not None)))
    for number, (job, other, card, _) in enumerate(rows):
        if filled is not None:
            table[number, -1] = filled(job, other, card) - 1
        table[number, column[job]] += 1
        table[number, column[other]] += 1
        table[number, len(jobs) + cards.index(card)] = -1
    failed = np.array([float(row[3]) for row in rows])
    loose = np.full(table.shape[1] - len(jobs), _LOOSE)
    found = _fit(table, failed, np.r_[np.full(len(jobs), _RIDGE), loose]).tolist()
    sizes, limits = dict(zip(jobs, found, strict=False)), dict(zip(cards, found[len(jobs) :], strict=False))
    return Sizes(sizes, limits, found[-1] if filled is not None else 0.0, filled)


def _fit(table: Any, failed: Any, ridge: Any) -> Any:
    """Newton's method for the penalized likelihood."""
    found = np.zeros(table.shape[1])
    for _ in range(_ROUNDS):
        chance = 1 / (1 + np.exp(-np.clip(table @ found, -30, 30)))
        slope = table.T @ (chance - failed) + ridge * found
        step = np.linalg.solve((table.T * (chance * (1 - chance))) @ table + np.diag(ridge), slope)
        found -= np.clip(step, -_LONGEST, _LONGEST)
        if abs(step).max() < 1e-6:
            break
    return found
