"""Sums and shares over jobs: of the whole audit, and by user, queue, size and week."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from gpulint_audit.definitions.idle import CAUSES
from gpulint_audit.parameters import GB, Parameters
from gpulint_audit.verdicts import Verdict

HOUR = 3600.0
_MEANS = ("mean_utilization", "mean_sm_activity", "mean_gpu_memory", "mean_cpu_utilization", "mean_memory")


@dataclass(frozen=True, slots=True)
class Prices:
    """What an hour of a GPU costs, and what a kWh of its energy emits."""

    gpu_hour: float | None = None
    currency: str = ""
    kg_co2_kwh: float | None = None


def waste(found: Sequence[Verdict], prices: Prices) -> dict[str, Any]:
    """GPU-hours, money and energy of jobs."""
    gpu_s, seen_s = sum(verdict.gpu_s for verdict in found), sum(verdict.seen_s for verdict in found)
    wasted = sum(verdict.wasted_s for verdict in found)
    lost = sum(sum(verdict.losses.values()) for verdict in found)
    energy = [verdict.facts["energy_kwh"] for verdict in found if verdict.facts["energy_kwh"] is not None]
    idle = [verdict.facts["idle_energy_kwh"] for verdict in found if verdict.facts["idle_energy_kwh"] is not None]
    return {
        "jobs": len(found),
        "gpu_hours": gpu_s / HOUR,
        "seen_gpu_hours": seen_s / HOUR,
        "coverage": min(1.0, seen_s / gpu_s) if gpu_s else None,
        "utilization": 1.0 - lost / seen_s if seen_s else None,
        "wasted_gpu_hours": wasted / HOUR,
        "lost_gpu_hours": lost / HOUR,
        "cost": None if prices.gpu_hour is None else gpu_s / HOUR * prices.gpu_hour,
        "wasted_cost": None if prices.gpu_hour is None else wasted / HOUR * prices.gpu_hour,
        "currency": prices.currency or None,
        "energy_kwh": sum(energy) if energy else None,
        "idle_energy_kwh": sum(idle) if idle else None,
        "idle_kg_co2": sum(idle) * prices.kg_co2_kwh if idle and prices.kg_co2_kwh is not None else None,
        "causes": causes(found),
    }


def causes(found: Iterable[Verdict]) -> dict[str, float]:
    """Lost GPU-hours by cause, the largest first; they add up to ``lost_gpu_hours``."""
    sums = dict.fromkeys(CAUSES, 0.0)
    for verdict in found:
        for cause, seconds in verdict.losses.items():
            sums[cause] += seconds / HOUR
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def totals(found: Sequence[Verdict], parameters: Parameters, prices: Prices) -> dict[str, Any]:
    """Everything that CloudBrain-I publishes about a cluster, of these jobs."""
    seen = [verdict for verdict in found if verdict.utilization is not None]
    return {
        **waste(found, prices),
        "jobs_without_samples": len(found) - len(seen),
        "mean_of_jobs": {
            name: _mean(verdict.facts[name] for verdict in seen)
            for name in _MEANS
        },
        "of_samples": _of_samples(seen),
        "low_jobs": _share(seen, lambda verdict: verdict.facts["low"]),
        "low_gpu_and_memory_jobs": _share(seen, _low_gpu_and_memory),
        "jobs_at_most_20_gpu_and_memory": _share(seen, _at_most_20_gpu_and_memory),
        "jobs_below_20_gpu_and_cpu": _share(seen, _below_20_gpu_and_cpu),
        "fluctuating_jobs": _share(seen, lambda verdict: verdict.facts["fluctuating"]),
        "mismatched_jobs": _share(seen, lambda verdict: verdict.facts["mismatch"]),
        "partly_used_jobs": _share(seen, lambda verdict: verdict.facts["partly_used"]),
        "unused_by_gpus": _unused_by_gpus(seen),
        "unused_gpu_time": _unused_gpu_time(seen),
        "stable_phases": _stable_phases(seen),
        "several_memory_phases": _share(seen, _several),
        "memory_gap_over_1_gb": _share(seen, lambda verdict: _gap(verdict, 1)),
        "memory_gap_over_8_gb": _share(seen, lambda verdict: _gap(verdict, 8)),
        "seconds": _spread([verdict.seconds for verdict in found]),
        "queue_seconds": _spread([verdict.facts["queue_seconds"] for verdict in found]),
    }  # fmt: skip


def _of_samples(found: Sequence[Verdict]) -> dict[str, float] | None:
    """Mean utilization of all samples, and the share of them with 0: what studies publish that do not weigh samples by
    time."""
    count = sum(verdict.facts["samples"] for verdict in found)
    if not count:
        return None
    total = sum(v.facts["sample_mean_utilization"] * v.facts["samples"] for v in found if v.facts["samples"])
    zeros = sum(verdict.facts["zero_samples"] for verdict in found)
    return {"samples": count, "mean_utilization": total / count, "zero": zeros / count}


def grouped(found: Sequence[Verdict], by: str, prices: Prices) -> list[dict[str, Any]]:
    """The same sums by user, queue, gpus, kind, state, gpu_type or week (of the start, ISO 8601), most wasted first,
    weeks in their order."""
    groups: dict[Any, list[Verdict]] = defaultdict(list)
    for verdict in found:
        groups[key_of(verdict, by)].append(verdict)
    rows = [{by: key, **waste(members, prices)} for key, members in groups.items()]
    if by == "week":
        return sorted(rows, key=lambda row: str(row[by]))
    return sorted(rows, key=lambda row: (-row["wasted_gpu_hours"], str(row[by])))


def key_of(verdict: Verdict, by: str) -> Any:
    """The group that a job belongs to."""
    if by == "week":
        year, week, _ = datetime.fromtimestamp(verdict.start, UTC).isocalendar()
        return f"{year}-W{week:02}"
    if by == "gpus":
        return verdict.gpus
    if by == "debugging":
        return verdict.debugging
    return getattr(verdict.job, by)


BY = ("user", "queue", "gpus", "week", "kind", "state", "gpu_type", "debugging")


def heat_map(found: Iterable[Verdict]) -> dict[str, dict[str, tuple[float, float]]]:
    """Seen and wasted GPU-hours by queue and day (UTC, ISO 8601)."""
    cells: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for verdict in found:
        for day, (seen, _, idle) in verdict.days.items():
            name = (date(1970, 1, 1) + timedelta(days=day)).isoformat()
            before = cells[verdict.job.queue].get(name, (0.0, 0.0))
            cells[verdict.job.queue][name] = (before[0] + seen / HOUR, before[1] + idle / HOUR)
    return {queue: dict(sorted(days.items())) for queue, days in sorted(cells.items())}


def _unused_gpu_time(found: Sequence[Verdict]) -> dict[str, dict[str, float | None]]:
    """CloudBrain-I, Table V: idle slots of GPUs that are used at some time, and GPUs that are never used, as shares of
    the seen GPU time: of jobs of the kind, and of all. Time is counted in seconds of GPUs or MIG instances."""
    everything = sum(verdict.gpu_seen_s for verdict in found)
    kinds = {
        "debugging": [verdict for verdict in found if verdict.debugging],
        "other": [verdict for verdict in found if not verdict.debugging],
        "all": list(found),
    }
    rows: dict[str, dict[str, float | None]] = {}
    for kind, members in kinds.items():
        own = sum(verdict.gpu_seen_s for verdict in members)
        known = [v.facts["idle_slot_seconds_of_used_gpus"] for v in members]
        slots = sum(value for value in known if value is not None) if any(v is not None for v in known) else None
        never = sum(verdict.facts["never_used_seconds"] or 0.0 for verdict in members)
        together = None if slots is None else slots + never
        rows[kind] = {
            f"{name}_of_{whole}": None if seconds is None or not base else seconds / base
            for name, seconds in (("idle_slots", slots), ("never_used", never), ("together", together))
            for whole, base in (("own", own), ("all", everything))
        }
    return rows


def _unused_by_gpus(found: Sequence[Verdict]) -> dict[str, dict[str, float | None]]:
    """CloudBrain-I: share of jobs with GPUs that are never used, by the number requested."""
    groups: dict[str, list[Verdict]] = {name: [] for name in ("1", "2", "4", "8", "16", "other", "all")}
    for verdict in found:
        groups[name if (name := f"{verdict.gpus:g}") in groups else "other"].append(verdict)
        groups["all"].append(verdict)
    return {
        name: {"jobs": len(members), "share": _share(members, lambda verdict: bool(verdict.facts["never_used_gpus"]))}
        for name, members in groups.items()
    }


def _stable_phases(found: Sequence[Verdict]) -> dict[str, float] | None:
    """CloudBrain-I, Table III: share of the GPU time with known memory in stable phases."""
    known = [verdict for verdict in found if verdict.facts["stable_phases"] is not None]
    base = sum(verdict.facts["stable_phases_of_seconds"] for verdict in known)
    if not base:
        return None
    names = known[0].facts["stable_phases"]
    return {name: sum(verdict.facts["stable_phases"][name] for verdict in known) / base for name in names}


def _several(verdict: Verdict) -> bool | None:
    known = verdict.facts["memory_phases"]
    return None if known is None else known > 1


def _gap(verdict: Verdict, gigabytes: int) -> bool | None:
    known = verdict.facts["memory_gap_bytes"]
    return None if known is None else known > gigabytes * GB


def _low_gpu_and_memory(verdict: Verdict) -> bool | None:
    return _both(verdict, "mean_gpu_memory", lambda value: value < 0.5)


def _at_most_20_gpu_and_memory(verdict: Verdict) -> bool | None:
    return _both(verdict, "mean_gpu_memory", lambda value: value <= 0.2)


def _below_20_gpu_and_cpu(verdict: Verdict) -> bool | None:
    return _both(verdict, "mean_cpu_utilization", lambda value: value < 0.2)


def _both(verdict: Verdict, other: str, test: Callable[[float], bool]) -> bool | None:
    value = verdict.facts[other]
    return None if value is None or verdict.utilization is None else test(verdict.utilization) and test(value)


def _share(found: Sequence[Verdict], test: Callable[[Verdict], bool | None]) -> float | None:
    """Share of the jobs for which a test has an answer."""
    answers = [answer for verdict in found if (answer := test(verdict)) is not None]
    return sum(answers) / len(answers) if answers else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _spread(values: Iterable[float | None]) -> dict[str, float] | None:
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    return {"mean": sum(known) / len(known), "median": statistics.median(known), "max": known[-1]}
