"""Pauses of a GPU between its work, and whether they come regularly."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gpulint_probe.analysis.patterns import Pattern, Stretch

_SPREAD = 0.25
"""Pauses are regular when the median deviation from their median distance is at most this share of it."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Adjoining idle and dropped stretches of one GPU."""

    stretches: tuple[Stretch, ...]

    @property
    def start(self) -> float:
        return self.stretches[0].start

    @property
    def end(self) -> float:
        return self.stretches[-1].end

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often pauses come: how many, their median length and, where they are regular, the time from start to
    start."""

    count: int
    length_s: float
    period_s: float | None


def pauses(stretches: Sequence[Stretch]) -> tuple[Pause, ...]:
    """The pauses of one GPU's stretches, which are in order of time."""
    groups: list[list[Stretch]] = []
    for stretch in stretches:
        if stretch.pattern not in (Pattern.IDLE, Pattern.DROP):
            continue
        if groups and stretch.start - groups[-1][-1].end < 1e-6:
            groups[-1].append(stretch)
        else:
            groups.append([stretch])
    return tuple(Pause(tuple(group)) for group in groups)


def rhythm(found: Sequence[tuple[float, float]]) -> Rhythm | None:
    """The rhythm of (start, end) pairs in order of time; regular needs three of them."""
    if not found:
        return None
    length = median(end - start for start, end in found)
    distances = [later[0] - earlier[0] for earlier, later in itertools.pairwise(found)]
    period = median(distances) if len(distances) >= 2 else None
    if period is not None and (
        period <= length or median(abs(distance - period) for distance in distances) > _SPREAD * period
    ):
        period = None  # a pause as long as the typical distance is one of unlike lengths
    return Rhythm(len(found), length, period)
