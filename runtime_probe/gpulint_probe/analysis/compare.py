"""Two recordings of a job, before and after a change."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gpulint_probe.analysis.causes import Cause
from gpulint_probe.analysis.figures import Analysis
from gpulint_probe.analysis.verdict import WORTH_NAMING


@dataclass(frozen=True, slots=True)
class Row:
    """A figure before and after; None is "not seen". ``unit`` is "ratio", "s", "J", "B" or a rate such as "steps/s"."""

    name: str
    before: float | None
    after: float | None
    unit: str

    @property
    def factor(self) -> float | None:
        """after / before; None where one is missing or nothing was there before."""
        return self.after / self.before if self.before and self.after is not None else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """``rows`` of figures and the GPU time lost to each cause as a share; ``warnings`` says what makes the comparison
    doubtful."""

    rows: tuple[Row, ...]
    causes: tuple[Row, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The rows with their factors."""
        return {
            "rows": [asdict(row) | {"factor": row.factor} for row in self.rows],
            "causes": [asdict(row) for row in self.causes],
            "warnings": list(self.warnings),
        }


def compare(before: Analysis, after: Analysis) -> Comparison:
    """Utilization, duration, speed, energy and losses of two runs.

    Energy per unit of work is the mean power over the speed, where both logs have it in the same unit.
    """
    rows = [
        Row("GPU utilization" if before.coarse or after.coarse else "SM activity", before.utilization,
            after.utilization, "ratio"),
        Row("duration", before.seconds, after.seconds, "s"),
        Row("GPU time", before.gpu_seconds, after.gpu_seconds, "s"),
        Row("peak memory of a GPU", _peak(before), _peak(after), "B"),
        Row("GPU energy", before.energy_j, after.energy_j, "J"),
        Row("mean power of all GPUs", _power(before), _power(after), "W"),
    ]  # fmt: skip
    first, second = before.speed, after.speed
    if first is not None and second is not None and first.unit == second.unit:
        rows.insert(2, Row("speed by the log", first.value, second.value, first.unit))
        one = first.unit.removesuffix("/s").removesuffix("s")
        costs = [
            power / speed.value if power is not None and speed.value else None
            for power, speed in ((_power(before), first), (_power(after), second))
        ]
        rows.append(Row(f"GPU energy per {one}", costs[0], costs[1], f"J/{one}"))
    return Comparison(tuple(rows), _causes(before, after), tuple(_warnings(before, after)))


def _causes(before: Analysis, after: Analysis) -> tuple[Row, ...]:
    shares = [{loss.cause: loss.share for loss in analysis.losses} for analysis in (before, after)]
    rows = [
        Row(cause.value, shares[0].get(cause, 0.0), shares[1].get(cause, 0.0), "ratio")
        for cause in Cause
        if cause is not Cause.BUSY and max(share.get(cause, 0.0) for share in shares) >= WORTH_NAMING
    ]
    return tuple(sorted(rows, key=lambda row: -max(row.before or 0.0, row.after or 0.0)))


def _warnings(before: Analysis, after: Analysis) -> list[str]:
    found = []
    cards = [[gpu.name for gpu in analysis.gpus] for analysis in (before, after)]
    if cards[0] != cards[1]:
        found.append(f"the GPUs differ: {', '.join(cards[0]) or 'none'} and {', '.join(cards[1]) or 'none'}")
    if before.coarse != after.coarse:
        found.append("one run has SM activity, the other only coarse utilization, which is higher")
    codes = [analysis.recording.exit_code for analysis in (before, after)]
    if codes[0] != codes[1]:
        found.append(f"the runs ended differently (exit codes {codes[0]} and {codes[1]})")
    if before.recording.command != after.recording.command:
        found.append("the commands differ")
    return found


def _peak(analysis: Analysis) -> float | None:
    return max(
        (float(gpu.peak_memory_bytes) for gpu in analysis.gpus if gpu.peak_memory_bytes is not None), default=None
    )


def _power(analysis: Analysis) -> float | None:
    """Watts over the run: the energy where it is known, as a counter misses nothing between samples."""
    if analysis.energy_j is not None and analysis.seconds > 0:
        return analysis.energy_j / analysis.seconds
    return None
