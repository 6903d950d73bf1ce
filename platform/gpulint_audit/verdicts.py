"""One verdict per job, put together from what the definitions answered."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from gpulint_audit.definitions.idle import CAUSES
from gpulint_audit.engine import Answers, Row
from gpulint_audit.parameters import EPSILON, Parameters
from gpulint_audit.tables import Job, expected_gpus

WASTE = tuple(cause for cause in CAUSES if cause != "low_activity")
"""Causes whose time has a utilization of 0."""
_SECONDS_AN_HOUR = 3600.0


@dataclass
class Verdict:
    """What the audit says about one job. Seconds of GPUs add up over GPUs; None is always "not seen", never zero."""

    job: Job
    number: int
    start: float
    end: float
    debugging: bool
    gpus: float
    """Requested, or those seen where the request is unknown."""
    gpu_s: float
    """Seconds of whole GPUs that were allocated; a MIG instance is a fraction of one."""
    seen_s: float
    """Of these, those that samples cover."""
    coverage: float
    facts: dict[str, Any] = field(default_factory=dict)
    """All other figures, as JSON has them."""
    losses: dict[str, float] = field(default_factory=dict)
    """Lost seconds of whole GPUs by cause."""
    idle: dict[str, float] = field(default_factory=dict)
    """Of these, those with a utilization of 0."""
    days: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    """Seen, lost and idle seconds of whole GPUs by day since 1970 (UTC)."""
    series: dict[tuple[str, str], Row] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def utilization(self) -> float | None:
        found: float | None = self.facts["mean_utilization"]
        return found

    @property
    def wasted_s(self) -> float:
        """Seconds of whole GPUs with a utilization of 0."""
        return sum(self.idle.values())


def verdicts(answers: Answers, parameters: Parameters) -> list[Verdict]:
    """A verdict for each job that lived in the period, in the order of the table of jobs."""
    found = []
    for number, job in enumerate(answers.jobs):
        series = answers.series.get(number, {})
        last = max((row["last"] for row in series.values() if "last" in row), default=None)
        ending = job.end if job.end is not None else (last if last is not None else job.start)
        start, end = max(job.start, parameters.since), min(ending, parameters.until)
        momentary = ending == job.start and parameters.since <= job.start <= parameters.until
        if end > start or momentary:
            found.append(_verdict(answers, number, start, end, parameters))
    return found


def _verdict(answers: Answers, number: int, start: float, end: float, parameters: Parameters) -> Verdict:
    job = answers.jobs[number]
    series = {place: row for place, row in answers.series.get(number, {}).items() if row.get("seen_s", 0.0) > 0}
    fractional = any(row.get("fractional") for row in series.values())
    expected = expected_gpus(job.gpus, len(series), fractional)
    seconds = max(end - start, 0.0)
    seen = sum(row["seen_s"] for row in series.values())
    coverage = min(1.0, seen / (expected * seconds)) if expected and seconds > 0 else 0.0
    losses = answers.losses.get(number, [])
    verdict = Verdict(
        job, number, start, end, is_debugging(job, seconds, parameters),
        job.gpus if job.gpus is not None else float(len(series)),
        _allocated(job, series, expected, fractional) * seconds,
        sum(row["seen_s"] for row in losses), coverage, series=series,
    )  # fmt: skip
    for row in losses:
        if row["cause"]:
            verdict.losses[row["cause"]] = verdict.losses.get(row["cause"], 0.0) + row["lost_s"]
            verdict.idle[row["cause"]] = verdict.idle.get(row["cause"], 0.0) + row["idle_s"]
        before = verdict.days.get(row["day"], (0.0, 0.0, 0.0))
        verdict.days[row["day"]] = (before[0] + row["seen_s"], before[1] + row["lost_s"], before[2] + row["idle_s"])
    verdict.idle = {cause: idle for cause, idle in verdict.idle.items() if idle > 0}
    facts = verdict.facts
    facts.update(_usage(series))
    facts.update(_idle(verdict, answers, parameters))
    facts.update(_variation(series, answers.columns, parameters))
    facts.update(_memory(series, answers.columns, parameters))
    facts.update(_patterns(verdict, parameters))
    facts["unknown_gpus"] = max(0, expected - len(series))
    facts["queue_seconds"] = None if job.submit is None else job.start - job.submit
    energy = answers.of_job.get(number, {})
    facts["energy_kwh"] = _kwh(energy.get("energy_j"))
    facts["idle_energy_kwh"] = _kwh(energy.get("idle_energy_j"))
    facts["unseen"] = _unseen(verdict, answers, expected)
    return verdict


def is_debugging(job: Job, seconds: float, parameters: Parameters) -> bool:
    """Whether a job is for debugging, by its kind, name, command or the limit of duration."""
    if job.kind and job.kind.lower() in parameters.debug_kinds:
        return True
    limit = parameters.debug_seconds
    if limit is not None and seconds >= limit:
        return True
    if job.kind:
        return False
    texts = (job.name, job.command)
    return any(re.search(parameters.debug_pattern, text, re.IGNORECASE) is not None for text in texts)


def _allocated(job: Job, series: dict[tuple[str, str], Row], expected: int, fractional: bool) -> float:
    if not fractional:
        return job.gpus if job.gpus else float(len(series))
    known: list[float] = [row["weight"] for row in series.values()]
    return sum(known) + (expected - len(known)) * (sum(known) / len(known))


def _mean(series: dict[tuple[str, str], Row], name: str) -> float | None:
    known = [row[name] for row in series.values() if row.get(name) is not None]
    return sum(known) / len(known) if known else None


def _most(series: dict[tuple[str, str], Row], name: str) -> float | None:
    return max((row[name] for row in series.values() if row.get(name) is not None), default=None)


def _usage(series: dict[tuple[str, str], Row]) -> dict[str, Any]:
    """U, the mean of the U_i of its GPUs (ICSE), MIG instances by their fraction; means and maxima of the rest."""
    weight = sum(row["weight"] for row in series.values())
    mean = sum(row["utilization"] * row["weight"] for row in series.values()) / weight if weight else None
    each = [row["utilization"] for row in series.values()]
    names = ("sm_activity", "gpu_memory_bytes", "gpu_memory", "cpu_utilization", "memory_bytes", "memory", "power_w")
    return {
        "mean_utilization": mean,
        "max_utilization": _most(series, "max_utilization"),
        **{f"{kind}_{name}": (_mean if kind == "mean" else _most)(series, f"{kind}_{name}")
           for name in names for kind in ("mean", "max")},
        "imbalance": max(each) - min(each) if len(each) > 1 else None,
        "sample_interval_seconds": _most(series, "interval_s"),
    }  # fmt: skip


def _idle(verdict: Verdict, answers: Answers, parameters: Parameters) -> dict[str, Any]:
    series = verdict.series
    strict = "gpu_memory_bytes" in answers.columns and any(
        row.get("mean_gpu_memory_bytes") is not None for row in series.values()
    )
    never = [row for row in series.values() if row["max_utilization"] <= EPSILON]
    used = [row for row in series.values() if row["max_utilization"] > EPSILON]
    seen = sum(row["seen_s"] for row in series.values())

    def total(name: str, rows: list[Row]) -> float:
        return sum(row.get(name) or 0 for row in rows)

    every = [*never, *used]
    ends = answers.of_job.get(verdict.number, {})
    known = bool(series)
    return {
        "low": None if verdict.utilization is None else verdict.utilization <= parameters.low_utilization + EPSILON,
        "idle_slots": int(total("empty_slots", every)) if strict else None,
        "idle_slot_seconds": total("empty_slot_s", every) if strict else None,
        "idle_slot_share": total("empty_slot_s", every) / seen if strict and seen else None,
        "idle_slot_seconds_of_used_gpus": total("empty_slot_s", used) if strict else None,
        "longest_idle_slot_seconds": max((row.get("empty_longest_slot_s") or 0.0 for row in every), default=0.0)
        if strict else None,
        "idle_slots_utilization_only": int(total("idle_slots", every)) if known else None,
        "idle_slot_seconds_utilization_only": total("idle_slot_s", every) if known else None,
        "never_used_gpus": len(never) if known else None,
        "never_used_seconds": sum(row["seen_s"] for row in never) if known else None,
        "partly_used": bool(never and used) if known else None,
        "idle_at_end_seconds": ends.get("idle_at_end_seconds") if known else None,
        "idle_at_start_seconds": ends.get("idle_at_start_seconds") if known else None,
    }  # fmt: skip


def _variation(series: dict[tuple[str, str], Row], columns: set[str], parameters: Parameters) -> dict[str, Any]:
    """Fluctuating: some GPU, or the CPU, floats in most of its intervals."""
    gpu, cpu = _most(series, "floating"), _most(series, "cpu_floating")
    known = [share for share in (gpu, cpu) if share is not None]
    cpu_use, gpu_use = _mean(series, "mean_cpu_utilization"), _mean(series, "utilization")
    resources = {
        "gpu": gpu_use,
        "cpu": cpu_use,
        "gpu_memory": _mean(series, "mean_gpu_memory"),
        "memory": _mean(series, "mean_memory"),
    }
    high = [name for name, value in resources.items() if value is not None and value > parameters.mismatch_high]
    low = [name for name, value in resources.items() if value is not None and value < parameters.mismatch_low]
    several = sum(value is not None for value in resources.values()) > 1
    return {
        "fluctuating": any(share > parameters.fluctuating + EPSILON for share in known) if known else None,
        "floating_share": gpu,
        "cpu_floating_share": cpu,
        "mismatch": bool(high and low) if several else None,
        "mismatch_high": high if low else [],
        "mismatch_low": low if high else [],
    }


def _memory(series: dict[tuple[str, str], Row], columns: set[str], parameters: Parameters) -> dict[str, Any]:
    """GPU-seconds in stable phases by (t, m); phases and gaps of the memory that is held."""
    capacity = any(row.get("mean_gpu_memory") is not None for row in series.values())
    names = [f"t{t}_m{m}" for m in parameters.phase_gb for t in parameters.phase_s]
    held = any(row.get("mean_gpu_memory_bytes") is not None for row in series.values())
    return {
        "stable_phases": {name: sum(row.get(name) or 0.0 for row in series.values()) for name in names}
        if capacity else None,
        "memory_phases": max((row.get("levels") or 0 for row in series.values()), default=0) if held else None,
        "memory_gap_bytes": max((row.get("memory_gap_bytes") or 0.0 for row in series.values()), default=0.0)
        if held else None,
    }  # fmt: skip


def _patterns(verdict: Verdict, parameters: Parameters) -> dict[str, Any]:
    """ICSE's three patterns, where samples are fine enough to see them."""
    series = verdict.series
    interval = verdict.facts["sample_interval_seconds"]
    worst = max(series.values(), key=lambda row: row.get("stretches") or 0, default={})
    recurring = {
        "idle_stretches": worst.get("stretches") or 0,
        "idle_stretch_seconds": worst.get("stretch_s"),
        "idle_period_seconds": worst.get("period_s"),
    }
    if interval is None or interval > parameters.finest_s + EPSILON:
        return {"patterns": None, **recurring}
    seen = sum(row["seen_s"] for row in series.values())
    used = (verdict.facts["max_utilization"] or 0.0) > EPSILON
    busy = sum(row.get("busy_s") or 0.0 for row in series.values())
    drops = sum(row.get("drops") or 0 for row in series.values())
    patterns = {
        "idle_for_a_time": (verdict.facts["idle_slots_utilization_only"] or 0) > 0,
        "low_throughout": bool(used and verdict.facts["low"] and busy < 0.05 * seen),
        "sudden_drops": drops > 0,
    }
    return {"patterns": patterns, "sudden_drops": drops, **recurring}


def _unseen(verdict: Verdict, answers: Answers, expected: int) -> list[str]:
    """What could not be said about a job, and why."""
    if not verdict.series:
        return ["no samples: nothing is known of its GPUs"]
    found = []
    if missing := expected - len(verdict.series):
        found.append(f"no samples of {missing} of {expected} GPUs: not counted as never used")
    if verdict.coverage < 0.99:
        found.append(f"samples cover {verdict.coverage:.1%} of the GPU time")
    facts = verdict.facts
    if facts["idle_slot_seconds"] is None:
        found.append("no GPU memory: idle slots by utilization only")
    elif facts["stable_phases"] is None:
        found.append("size of the GPU memory unknown: no stable phases (pass --gpu-memory)")
    if facts["patterns"] is None:
        found.append(f"samples {facts['sample_interval_seconds']:g} s apart are too coarse for patterns")
    if (conflicts := sum(row.get("conflicts") or 0 for row in verdict.series.values())) > 0:
        found.append(f"{conflicts} samples contradict others of the same time: the highest utilization counts")
    return found


def _kwh(joules: float | None) -> float | None:
    return None if joules is None else joules / 3.6e6
