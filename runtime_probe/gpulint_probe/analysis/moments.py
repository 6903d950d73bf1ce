"""What the ranks of a job did at the same moments: who works while another one waits is the one it waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpulint_probe.analysis.stacks import Tally, Track
from gpulint_probe.inside.phases import Reading

_NEAR_S = 0.006
"""Samples that belong to one moment: ranks take them by a common plan, but wake up late where no core is free."""


@dataclass(frozen=True)
class State:
    """A rank at a moment, as a tally of this one sample."""

    track: Track
    found: Tally


@dataclass(frozen=True)
class Moment:
    """The ranks that were sampled at a moment, at least two."""

    time_s: float
    states: tuple[State, ...]


def moments(tracks: Sequence[Track], readings: Mapping[int, Reading]) -> tuple[Moment, ...]:
    """All moments of the threads, in order; none in recordings that do not have the times of samples."""
    ordered = sorted((sample for track in tracks for sample in _samples(track, readings)), key=lambda sample: sample[0])
    found: list[Moment] = []
    group: list[tuple[float, State]] = []
    for sample in [*ordered, None]:
        if group and (sample is None or sample[0] - group[0][0] > _NEAR_S):
            states = {state.track: state for _, state in group}
            if len(states) > 1:
                found.append(Moment(group[0][0], tuple(states.values())))
            group = []
        if sample is not None:
            group.append(sample)
    return tuple(found)


def _samples(track: Track, readings: Mapping[int, Reading]) -> Iterable[tuple[float, State]]:
    for window in track.windows:
        order = window.counts.order or []
        for stack, at, slept in zip(order[::3], order[1::3], order[2::3], strict=False):
            if stack in readings:
                phase, place = readings[stack].phase, readings[stack].place
                running = Counter({phase: 0 if slept else 1})
                found = Tally(samples=Counter({phase: 1}), running=running, places=Counter({(phase, place): 1}))
                yield window.start + at / 1000, State(track, found)
