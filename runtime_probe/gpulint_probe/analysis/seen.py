"""All that the search for causes looks at, and what it finds: a part of a GPU's time with its cause."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gpulint_probe.analysis.cause import Cause
from gpulint_probe.analysis.evidence import Host, LogPhases
from gpulint_probe.analysis.moments import Moment, moments
from gpulint_probe.analysis.patterns import Stretch
from gpulint_probe.analysis.series import GpuSeries, gpu_series, host_series, span
from gpulint_probe.analysis.stacks import Inside
from gpulint_probe.recording import Recording


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a GPU's time with its cause. ``certain`` where the series, the log or a stack says it, not only the
    host; ``stack`` is the line of the program that ran."""

    stretch: Stretch
    cause: Cause
    reason: str = ""
    certain: bool = True
    stack: str = ""


@dataclass(frozen=True)
class Seen:
    """A recording, read."""

    recording: Recording
    series: tuple[GpuSeries, ...]
    host: Host
    log: LogPhases
    inside: Inside
    end: float

    @classmethod
    def of(cls, recording: Recording) -> Seen:
        """A recording, read once."""
        slack = max(2.0, 2 * recording.interval_s)
        _, end = span(recording)
        return cls(
            recording, gpu_series(recording), Host(host_series(recording)), LogPhases(recording.marks, slack),
            Inside(recording), end,
        )  # fmt: skip

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """What the threads that train did at the same moments; see ``moments``."""
        return moments(self.inside.drivers, self.inside.readings)
