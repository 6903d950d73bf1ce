"""The definitions of docs/audit.md once more, in plain Python loops over lists: what the audit is tested against."""

from __future__ import annotations

import statistics
from collections import defaultdict
from itertools import pairwise
from typing import Any

from tests.audit.oracle_more import lengths, others
from tests.audit.planted import MORE

CLOSE = 1e-6


def judge(job: dict[str, Any], samples: list[dict[str, Any]]) -> dict[str, Any]:
    """What the audit must say about one job by its rows of the two tables."""
    series: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in samples:
        series[row.get("node") or "", row["gpu"]].append(row)
    pieces = {place: stretches(rows, job, series) for place, rows in series.items()}
    pieces = {place: found for place, found in pieces.items() if any(p["u"] is not None for p in found)}
    life = job["end"] - job["start"]
    expected = -(-job["gpus"] // 1) if job["gpus"] else len(pieces)
    seen = {place: sum(p["s"] for p in found if p["u"] is not None) for place, found in pieces.items()}
    if not pieces:
        return {"coverage": 0.0, "mean_utilization": None, "never_used_gpus": None, "unknown_gpus": int(expected),
                "idle_slot_seconds": None, "fluctuating": None, "mismatch": None, "idle_at_end_seconds": None,
                "idle_at_start_seconds": None, "low": None, "stable_phases": None, **others(job, pieces)}  # fmt: skip
    u_of = {
        place: sum(p["u"] * p["s"] for p in found if p["u"] is not None) / seen[place]
        for place, found in pieces.items()
    }
    weights = {place: slices(place[1]) or 1.0 for place in pieces}
    mean = sum(u_of[place] * weights[place] for place in pieces) / sum(weights.values())
    memory = any(p["m"] is not None for found in pieces.values() for p in found)
    return {
        "coverage": min(1.0, sum(seen.values()) / (expected * life)),
        "mean_utilization": mean,
        "low": mean <= 0.5 + CLOSE,
        "never_used_gpus": sum(all(p["u"] <= CLOSE for p in found if p["u"] is not None) for found in pieces.values()),
        "unknown_gpus": int(max(0, expected - len(pieces))),
        "idle_slot_seconds": sum(empty_seconds(found) for found in pieces.values()) if memory else None,
        "fluctuating": fluctuates(job, pieces),
        "mismatch": mismatched(u_of, pieces),
        **at_the_ends(job, pieces),
        "stable_phases": phases(pieces),
        **others(job, pieces),
    }


def stretches(rows: list[dict[str, Any]], job: dict[str, Any], series: dict[Any, list[Any]]) -> list[dict[str, Any]]:
    """Each sample with the time that it stands for, inside the job's life."""
    best: dict[float, dict[str, Any]] = {}
    for row in rows:
        known = best.get(row["timestamp"])
        if known is None or (row["gpu_utilization"] or 0) > (known["gpu_utilization"] or 0):
            best[row["timestamp"]] = row
    usual = spacing(rows)
    if usual is None:
        others = [found for other in series.values() if (found := spacing(other)) is not None]
        usual = max(others, default=15.0)
    times = sorted(best)
    found = []
    for position, time in enumerate(times):
        until = times[position + 1] if position + 1 < len(times) else None
        if until is None or until - time > 3 * usual:
            until = time + usual
        start, end = max(time, job["start"]), min(until, job["end"])
        if end - start > CLOSE:
            row = best[time]
            found.append({"a": start, "b": end, "s": end - start, "u": row["gpu_utilization"],
                          "m": row.get("gpu_memory_bytes"), "c": row.get("cpu_utilization"),
                          "total": row.get("gpu_memory_total_bytes"), "usual": usual,
                          **{name: row.get(name) for name in MORE}})  # fmt: skip
    return found


def spacing(rows: list[dict[str, Any]]) -> float | None:
    times = sorted({row["timestamp"] for row in rows})
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return statistics.median(gaps) if gaps else None


def slices(name: str) -> float | None:
    for part in name.split():
        head, dot, tail = part.partition("g.")
        if dot and head.isdigit() and tail.endswith("gb"):
            return int(head) / (4 if int(tail[:-2]) == 6 * int(head) else 7)
    return None


def empty_seconds(pieces: list[dict[str, Any]]) -> float:
    slots = lengths(pieces, lambda p: p["u"] is not None and p["u"] <= CLOSE and p["m"] is not None and p["m"] == 0)
    return sum(slot for slot in slots if slot >= 60 - CLOSE)


def fluctuates(job: dict[str, Any], pieces: dict[Any, list[dict[str, Any]]]) -> bool | None:
    answers = []
    for found in pieces.values():
        for key in "uc":
            windows: dict[int, list[tuple[float, float]]] = defaultdict(list)
            for piece in found:
                if piece[key] is not None:
                    windows[int((piece["a"] - job["start"] + CLOSE) // 120)].append((piece[key], piece["s"]))
            whole = [values for values in windows.values() if sum(s for _, s in values) >= 60 - CLOSE]
            if whole:
                floats = [max(v for v, _ in values) - min(v for v, _ in values) > 0.9 + CLOSE for values in whole]
                answers.append(sum(floats) / len(whole) > 0.75 + CLOSE)
    return any(answers) if answers else None


def mismatched(u_of: dict[Any, float], pieces: dict[Any, list[dict[str, Any]]]) -> bool | None:
    def mean(key: str, share: str | None = None) -> float | None:
        each = []
        for found in pieces.values():
            known = [(p[key] / (p[share] if share else 1), p["s"]) for p in found
                     if p[key] is not None and (share is None or p[share])]  # fmt: skip
            if known:
                each.append(sum(v * s for v, s in known) / sum(s for _, s in known))
        return sum(each) / len(each) if each else None

    resources = [
        sum(u_of.values()) / len(u_of),
        mean("c"),
        mean("m", "total"),
        mean("memory_bytes", "memory_total_bytes"),
    ]
    known = [value for value in resources if value is not None]
    return None if len(known) < 2 else max(known) > 0.8 and min(known) < 0.2


def at_the_ends(job: dict[str, Any], pieces: dict[Any, list[dict[str, Any]]]) -> dict[str, float]:
    active = [p for found in pieces.values() for p in found if p["u"] is not None and p["u"] > CLOSE]
    last = max((p["b"] for p in active), default=float("-inf"))
    first = min((p["a"] for p in active), default=float("inf"))
    after = [
        sum(max(0.0, p["b"] - max(p["a"], last)) for p in found if p["u"] is not None) for found in pieces.values()
    ]
    before = [
        sum(max(0.0, min(p["b"], first) - p["a"]) for p in found if p["u"] is not None) for found in pieces.values()
    ]
    return {"idle_at_end_seconds": max(after), "idle_at_start_seconds": max(before)}


def phases(pieces: dict[Any, list[dict[str, Any]]]) -> dict[str, float] | None:
    every = [p for found in pieces.values() for p in found]
    if not any(p["m"] is not None and p["total"] for p in every):
        return None
    return {
        f"t{t}_m{m}": sum(
            length
            for found in pieces.values()
            for length in lengths(found, lambda p, m=m: p["m"] is not None and p["total"] and p["total"] - p["m"] > m * 1e9)
            if length > t + CLOSE
        )
        for m in (1, 2, 4, 8)
        for t in (60, 120, 240, 480, 960)
    }  # fmt: skip
