"""How fast a job worked, as its log says."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from gpulint_probe.recording import Mark

_RATE = re.compile(
    r"(\d+(?:\.\d+)?)\s*(samples|examples|images|imgs|img|tokens|sequences|it|iter|iters|steps|batches)\s*/\s*s(?:ec)?\b"
)
_SAME = {"imgs": "images", "img": "images", "it": "steps", "iter": "steps", "iters": "steps", "batches": "steps"}


@dataclass(frozen=True, slots=True)
class Speed:
    """Work per second."""

    value: float
    unit: str
    """``samples/s``, ``steps/s`` ..."""


def speed(marks: Iterable[Mark]) -> Speed | None:
    """Median of the rates that the log states (``128.4 samples/s``); else steps per second from the numbers of steps.

    Steps may start again at 0 in every epoch. None where the log has neither.
    """
    ordered = sorted(marks, key=lambda mark: mark.time_s)
    rates: dict[str, list[float]] = {}
    for mark in ordered:
        for value, unit in _RATE.findall(mark.text):
            rates.setdefault(_SAME.get(unit, unit), []).append(float(value))
    if rates:
        unit = max(rates, key=lambda name: (name != "steps", len(rates[name]), name))
        return Speed(median(rates[unit]), f"{unit}/s")
    steps = [mark for mark in ordered if mark.kind == "step" and mark.value is not None]
    done = sum(max(0.0, (later.value or 0.0) - (earlier.value or 0.0)) for earlier, later in itertools.pairwise(steps))
    seconds = steps[-1].time_s - steps[0].time_s if steps else 0.0
    return Speed(done / seconds, "steps/s") if done > 0 and seconds > 0 else None
