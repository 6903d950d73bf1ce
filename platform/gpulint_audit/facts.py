"""The figures of one job, from what the definitions answered about its GPUs."""

from __future__ import annotations

from typing import Any

from gpulint_audit.answers import Place, Row
from gpulint_audit.definitions.events import REASONS
from gpulint_audit.definitions.usage import AVERAGED
from gpulint_audit.parameters import EPSILON, Parameters

Series = dict[Place, Row]
_SPREAD = (*AVERAGED, "gpu_memory", "memory")


def facts(series: Series, of_job: Row, columns: set[str], parameters: Parameters) -> Row:
    """All figures by the names that JSON has. ``series`` are the GPUs that were seen, ``of_job`` answers about the job
    as a whole, ``columns`` the measures that the samples have."""
    found = _usage(series, of_job)
    found |= _idle(series, of_job, columns, found["mean_utilization"], parameters)
    found |= _variation(series, parameters)
    found |= _memory(series, parameters)
    found |= _patterns(series, found, parameters)
    found |= _hardware(series, of_job)
    return found


def name_of(place: Place) -> str:
    """A GPU, with its node where that is known."""
    node, gpu = place
    return f"{node}:{gpu}" if node else gpu


def _mean(series: Series, name: str) -> float | None:
    known = [row[name] for row in series.values() if row.get(name) is not None]
    return sum(known) / len(known) if known else None


def _most(series: Series, name: str) -> float | None:
    return max((row[name] for row in series.values() if row.get(name) is not None), default=None)


def _usage(series: Series, of_job: Row) -> dict[str, Any]:
    """U, the mean of the U_i of its GPUs (ICSE), MIG instances by their fraction; means and maxima of the rest."""
    weight = sum(row["weight"] for row in series.values())
    mean = sum(row["utilization"] * row["weight"] for row in series.values()) / weight if weight else None
    each = [row["utilization"] for row in series.values()]
    return {
        "mean_utilization": mean,
        "max_utilization": _most(series, "max_utilization"),
        **{f"{kind}_{name}": (_mean if kind == "mean" else _most)(series, f"{kind}_{name}")
           for name in _SPREAD for kind in ("mean", "max")},
        "samples": sum(row["samples"] for row in series.values()),
        "zero_samples": sum(row["zero_samples"] for row in series.values()),
        "sample_mean_utilization": _of_samples(series),
        "imbalance": max(each) - min(each) if len(each) > 1 else None,
        "rank_imbalance": of_job.get("rank_imbalance"),
        **_extremes(series),
        "sample_interval_seconds": _most(series, "interval_s"),
    }  # fmt: skip


def _of_samples(series: Series) -> float | None:
    """The mean of all samples, however much time each stands for, as some studies have it."""
    count = sum(row["samples"] for row in series.values())
    return sum(row["sampled"] for row in series.values()) / count if count else None


def _extremes(series: Series) -> dict[str, str | None]:
    """The GPUs that are used least and most, where they differ."""
    ranked = sorted(series, key=lambda place: (series[place]["utilization"], place))
    differ = len(ranked) > 1 and series[ranked[-1]]["utilization"] - series[ranked[0]]["utilization"] > EPSILON
    return {
        "least_used_gpu": name_of(ranked[0]) if differ else None,
        "most_used_gpu": name_of(ranked[-1]) if differ else None,
    }


def _idle(series: Series, ends: Row, columns: set[str], used: float | None, parameters: Parameters) -> dict[str, Any]:
    strict = "gpu_memory_bytes" in columns and any(
        row.get("mean_gpu_memory_bytes") is not None for row in series.values()
    )
    never = [row for row in series.values() if row["max_utilization"] <= EPSILON]
    active = [row for row in series.values() if row["max_utilization"] > EPSILON]
    seen = sum(row["seen_s"] for row in series.values())

    def total(name: str, rows: list[Row]) -> float:
        return sum(row.get(name) or 0 for row in rows)

    every = [*never, *active]
    known = bool(series)
    return {
        "low": None if used is None else used <= parameters.low_utilization + EPSILON,
        "idle_slots": int(total("empty_slots", every)) if strict else None,
        "idle_slot_seconds": total("empty_slot_s", every) if strict else None,
        "idle_slot_share": total("empty_slot_s", every) / seen if strict and seen else None,
        "idle_slot_seconds_of_used_gpus": total("empty_slot_s", active) if strict else None,
        "longest_idle_slot_seconds": max((row.get("empty_longest_slot_s") or 0.0 for row in every), default=0.0)
        if strict else None,
        "idle_slots_utilization_only": int(total("idle_slots", every)) if known else None,
        "idle_slot_seconds_utilization_only": total("idle_slot_s", every) if known else None,
        "never_used_gpus": len(never) if known else None,
        "never_used_seconds": sum(row["seen_s"] for row in never) if known else None,
        "partly_used": bool(never and active) if known else None,
        "idle_at_end_seconds": ends.get("idle_at_end_seconds") if known else None,
        "idle_at_start_seconds": ends.get("idle_at_start_seconds") if known else None,
    }  # fmt: skip


def _variation(series: Series, parameters: Parameters) -> dict[str, Any]:
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


def _memory(series: Series, parameters: Parameters) -> dict[str, Any]:
    """GPU-seconds in stable phases by (t, m); phases and gaps of the memory that is held."""
    capacity = any(row.get("mean_gpu_memory") is not None for row in series.values())
    names = [f"t{t}_m{m}" for m in parameters.phase_gb for t in parameters.phase_s]
    held = any(row.get("mean_gpu_memory_bytes") is not None for row in series.values())
    return {
        "stable_phases": {name: sum(row.get(name) or 0.0 for row in series.values()) for name in names}
        if capacity else None,
        "stable_phases_of_seconds": sum(row.get("gpu_memory_seen_s") or 0.0 for row in series.values())
        if capacity else None,
        "memory_phases": max((row.get("levels") or 0 for row in series.values()), default=0) if held else None,
        "memory_gap_bytes": max((row.get("memory_gap_bytes") or 0.0 for row in series.values()), default=0.0)
        if held else None,
    }  # fmt: skip


def _patterns(series: Series, known: Row, parameters: Parameters) -> dict[str, Any]:
    """ICSE's three patterns, where samples are fine enough to see them."""
    interval = known["sample_interval_seconds"]
    worst = max(series.values(), key=lambda row: row.get("stretches") or 0, default={})
    recurring = {
        "idle_stretches": worst.get("stretches") or 0,
        "idle_stretch_seconds": worst.get("stretch_s"),
        "idle_period_seconds": worst.get("period_s"),
    }
    if interval is None or interval > parameters.finest_s + EPSILON:
        return {"patterns": None, **recurring}
    seen = sum(row["seen_s"] for row in series.values())
    used = (known["max_utilization"] or 0.0) > EPSILON
    busy = sum(row.get("busy_s") or 0.0 for row in series.values())
    drops = sum(row.get("drops") or 0 for row in series.values())
    patterns = {
        "idle_for_a_time": (known["idle_slots_utilization_only"] or 0) > 0,
        "low_throughout": bool(used and known["low"] and busy < 0.05 * seen),
        "sudden_drops": drops > 0,
    }
    return {"patterns": patterns, "sudden_drops": drops, **recurring}


def _hardware(series: Series, of_job: Row) -> dict[str, Any]:
    """Energy; GPU-seconds with lower clocks by reason; the errors that the driver reported."""
    names = {reason: f"throttled_{reason}_s" for reason in REASONS}
    known = any(name in row for row in series.values() for name in names.values())
    errors = of_job.get("xid_errors")
    lowered = {reason: sum(row.get(name) or 0.0 for row in series.values()) for reason, name in names.items()}
    return {
        "energy_kwh": _kwh(of_job.get("energy_j")),
        "idle_energy_kwh": _kwh(of_job.get("idle_energy_j")),
        "throttled_seconds": lowered if known else None,
        "xid_errors": None if errors is None else sorted(number for number in errors if number > 0),
    }  # fmt: skip


def _kwh(joules: float | None) -> float | None:
    return None if joules is None else joules / 3.6e6
