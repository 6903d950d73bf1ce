"""How well the audit's verdicts agree with the oracle's, definition by definition."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from tests.audit.oracle import judge
from tests.audit.planted import Maker

BOOLEAN = ("low", "fluctuating", "mismatch", "debugging", "partly_used")
POSITIVE = ("idle_slot_seconds", "never_used_gpus", "unknown_gpus", "idle_at_end_seconds", "idle_at_start_seconds",
            "idle_slot_seconds_utilization_only", "xid_errors", "throttled_seconds")  # fmt: skip
"""A job is positive if the figure is not zero, and right only if the figure is equal."""
EQUAL = ("mean_utilization", "max_utilization", "coverage", "stable_phases", "memory_phases", "memory_gap_bytes", "imbalance",
         "rank_imbalance", "queue_seconds", "patterns", "energy_kwh", "idle_energy_kwh",
         *(f"{kind}_{name}" for kind in ("mean", "max") for name in ("sm_activity", "cpu_utilization", "gpu_memory_bytes",
           "gpu_memory", "memory", "pcie_rx_bytes_s", "pcie_tx_bytes_s", "nvlink_tx_bytes_s")))  # fmt: skip


def compare(maker: Maker, answer: dict[str, Any]) -> tuple[dict[str, float], list[str]]:
    """F1 by definition, and every disagreement in words. Of figures that all jobs have, F1 is the share of equal ones."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in (*BOOLEAN, *POSITIVE, *EQUAL)}
    wrong: list[str] = []
    told = {job["job"]: job for job in answer["jobs"]}
    for job in maker.jobs:
        expected = judge(job, maker.samples[job["job"]])
        for name, counter in counts.items():
            said, right = told[job["job"]][name], expected[name]
            agreed = equal(said, right)
            positive = right is not None if name in EQUAL else bool(right)
            claimed = said is not None if name in EQUAL else bool(said)
            counter["tp"] += positive and claimed and agreed
            counter["fp"] += claimed and not (positive and agreed)
            counter["fn"] += positive and not (claimed and agreed)
            if not agreed:
                kind = maker.kinds[job["job"]]
                wrong.append(f"{job['job']} ({kind}): {name} is {said!r}, must be {right!r}")
    return {name: _f1(counter) for name, counter in counts.items()}, wrong


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if left is None or right is None or isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, str | list):
        return bool(left == right)
    return math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-5)


def _f1(counter: Counter[str]) -> float:
    wrong = counter["fp"] + counter["fn"]
    return 2 * counter["tp"] / (2 * counter["tp"] + wrong) if counter["tp"] + wrong else 1.0
