"""The rest of the definitions in plain Python loops: imbalance, patterns, levels of memory, hardware, averages."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import Any

CLOSE = 1e-6
Pieces = dict[Any, list[dict[str, Any]]]


def others(job: dict[str, Any], pieces: Pieces) -> dict[str, Any]:
    """Figures that say nothing where nothing was seen."""
    used = {place: mean(found, "u") for place, found in pieces.items()}
    idle = [
        slot for found in pieces.values() for slot in lengths(found, lambda p: p["u"] is not None and p["u"] <= CLOSE)
    ]
    never = [place for place in pieces if not used[place]]
    return {
        "debugging": job["kind"] == "debug" or (not job["kind"] and "jupyter" in job["command"]),
        "queue_seconds": job["start"] - job["submit"],
        "partly_used": bool(never) and len(never) < len(pieces) if pieces else None,
        "idle_slot_seconds_utilization_only": sum(slot for slot in idle if slot >= 60 - CLOSE) if pieces else None,
        "imbalance": max(used.values()) - min(used.values()) if len(used) > 1 else None,
        "rank_imbalance": rank_imbalance(job, pieces),
        "patterns": patterns(pieces, used),
        **levels(pieces),
        **averages(pieces),
        **hardware(pieces),
    }


def lengths(pieces: list[dict[str, Any]], holds: Any) -> list[float]:
    """Lengths of the unbroken stretches in which something holds."""
    found: list[float] = []
    last = None
    for piece in pieces:
        if not holds(piece):
            last = None
            continue
        if last is not None and abs(piece["a"] - last) < CLOSE:
            found[-1] += piece["s"]
        else:
            found.append(piece["s"])
        last = piece["b"]
    return found


def mean(found: list[dict[str, Any]], key: str, of: str | None = None) -> float | None:
    known = [(p[key] / (p[of] if of else 1), p["s"]) for p in found if p[key] is not None and (of is None or p[of])]
    return sum(value * s for value, s in known) / sum(s for _, s in known) if known else None


def averages(pieces: Pieces) -> dict[str, float | None]:
    """Means over GPUs of means over time, and the greatest sample."""
    answer: dict[str, float | None] = {}
    for name, key, of in (
        ("sm_activity", "sm_activity", None), ("cpu_utilization", "c", None), ("gpu_memory_bytes", "m", None),
        ("gpu_memory", "m", "total"), ("memory", "memory_bytes", "memory_total_bytes"),
        ("pcie_rx_bytes_s", "pcie_rx_bytes_s", None), ("nvlink_tx_bytes_s", "nvlink_tx_bytes_s", None),
        ("pcie_tx_bytes_s", "nothing", None),
    ):  # fmt: skip
        each = [
            value
            for found in pieces.values()
            if (value := mean([{"nothing": None, **p} for p in found], key, of)) is not None
        ]
        answer[f"mean_{name}"] = sum(each) / len(each) if each else None
        most = [p[key] / (p[of] if of else 1) for found in pieces.values() for p in found
                if p.get(key) is not None and (of is None or p[of])]  # fmt: skip
        answer[f"max_{name}"] = max(most, default=None)
    used = [p["u"] for found in pieces.values() for p in found if p["u"] is not None]
    return {**answer, "max_utilization": max(used, default=None)}


def rank_imbalance(job: dict[str, Any], pieces: Pieces) -> float | None:
    windows: dict[int, dict[Any, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for place, found in pieces.items():
        for piece in found:
            if piece["u"] is not None:
                windows[int((piece["a"] - job["start"] + CLOSE) // 120)][place].append(piece)
    spreads = []
    for by_place in windows.values():
        each = [mean(found, "u") or 0.0 for found in by_place.values()]
        if len(each) > 1:
            spreads.append(max(each) - min(each))
    return sum(spreads) / len(spreads) if spreads else None


def patterns(pieces: Pieces, used: dict[Any, float | None]) -> dict[str, bool] | None:
    if not pieces or max(found[0]["usual"] for found in pieces.values()) > 60 + CLOSE:
        return None
    known = [[p for p in found if p["u"] is not None] for found in pieces.values()]
    seen = sum(p["s"] for found in known for p in found)
    busy = sum(p["s"] for found in known for p in found if p["u"] > 0.5)
    slots = [
        slot for found in pieces.values() for slot in lengths(found, lambda p: p["u"] is not None and p["u"] <= CLOSE)
    ]
    weights = {place: slices_of(place[1]) for place in pieces}
    mean_use = sum((used[place] or 0.0) * weights[place] for place in pieces) / sum(weights.values())
    return {
        "idle_for_a_time": any(slot >= 60 - CLOSE for slot in slots),
        "low_throughout": any(used.values()) and mean_use <= 0.5 + CLOSE and busy < 0.05 * seen,
        "sudden_drops": any(drops(found) for found in known),
    }


def slices_of(name: str) -> float:
    from tests.audit.oracle import slices

    return slices(name) or 1.0


def drops(found: list[dict[str, Any]]) -> int:
    count, last = 0, False
    for place, piece in enumerate(found):
        before = [p["u"] for p in found[max(0, place - 8) : place]]
        low = False
        if len(before) == 8:
            level = sum(before) / 8
            low = piece["u"] < level - 3 * max(statistics.pstdev(before), 0.02) and piece["u"] <= level / 2
        count += low and not last
        last = low
    return count


def levels(pieces: Pieces) -> dict[str, float | None]:
    """Most levels of memory of one GPU, and the greatest distance of their means."""
    if not any(p["m"] is not None for found in pieces.values() for p in found):
        return {"memory_phases": None, "memory_gap_bytes": None}
    most, gap = 0, 0.0
    for found in pieces.values():
        stretches: list[list[dict[str, Any]]] = []
        for piece in (p for p in found if p["m"] is not None):
            last = stretches[-1][-1] if stretches else None
            if last is not None and abs(last["b"] - piece["a"]) < CLOSE and abs(last["m"] - piece["m"]) <= 0.1e9:
                stretches[-1].append(piece)
            else:
                stretches.append([piece])
        held = [mean(stretch, "m") or 0.0 for stretch in stretches if sum(p["s"] for p in stretch) > 60 + CLOSE]
        most = max(most, len(held))
        gap = max(gap, max(held, default=0.0) - min(held, default=0.0))
    return {"memory_phases": most, "memory_gap_bytes": gap}


def hardware(pieces: Pieces) -> dict[str, Any]:
    every = [p for found in pieces.values() for p in found]
    powered = [p for p in every if p["power_w"] is not None]
    reasons = [p for p in every if p["throttle_reasons"] is not None]
    errors = [p["xid"] for p in every if p["xid"] is not None]
    idle = [p for p in powered if p["u"] is not None and p["u"] <= CLOSE]
    return {
        "energy_kwh": math.fsum(p["power_w"] * p["s"] for p in powered) / 3.6e6 if powered else None,
        "idle_energy_kwh": math.fsum(p["power_w"] * p["s"] for p in idle) / 3.6e6 if idle else None,
        "throttled_seconds": {
            "power": sum(p["s"] for p in reasons if int(p["throttle_reasons"]) & 0x84),
            "thermal": sum(p["s"] for p in reasons if int(p["throttle_reasons"]) & 0x68),
        } if reasons else None,
        "xid_errors": sorted({int(number) for number in errors if number}) if errors else None,
    }  # fmt: skip
