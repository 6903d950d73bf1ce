"""F1 of ``gpulint audit`` for every definition on planted series, and what a rule on means finds in the same series.

    python benchmarks/audit_planted.py [--jobs 1500] [--seed 7]

The oracle is tests/audit/oracle.py. The rules on means are those of two alerts of job_defense_shield
(PrincetonUniversity/job_defense_shield), by job rather than by user: zero_util_gpu_hours, for GPUs whose mean
utilization is 0, and low_gpu_util, for a mean of at most 25%, the threshold of its documentation.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gpulint.cli import main as gpulint
from tests.audit.comparing import compare
from tests.audit.planted import Maker, plant, write

_LOW_MEAN = 0.25
_LONG_S = 300.0
"""Shortest idle time that counts here as waste to report."""


def means(maker: Maker) -> dict[str, dict[str, bool]]:
    """Jobs that each rule on means of samples reports."""
    found: dict[str, dict[str, bool]] = {"zero": {}, "low": {}}
    for job in maker.jobs:
        by_gpu: dict[str, list[float]] = {}
        for row in maker.samples[job["job"]]:
            if row["gpu_utilization"] is not None:
                by_gpu.setdefault(f"{row.get('node')}:{row['gpu']}", []).append(row["gpu_utilization"])
        each = [sum(values) / len(values) for values in by_gpu.values()]
        found["zero"][job["job"]] = bool(each) and min(each) == 0
        found["low"][job["job"]] = bool(each) and sum(each) / len(each) <= _LOW_MEAN
    return found


def beside(answer: dict[str, Any], rules: dict[str, dict[str, bool]]) -> list[tuple[str, int, int, int]]:
    """By kind of waste: jobs that the audit reports, and those of them that the rules on means report, too."""
    used = [job for job in answer["jobs"] if job["never_used_gpus"] == 0]
    kinds = {
        "GPUs never used": [job for job in answer["jobs"] if job["never_used_gpus"]],
        f"idle at the end for {_LONG_S:g} s": [job for job in used if job["idle_at_end_seconds"] >= _LONG_S],
        f"idle at the start for {_LONG_S:g} s": [job for job in used if job["idle_at_start_seconds"] >= _LONG_S],
        "idle slots": [job for job in used if job["idle_slots"]],
        "idle for a time": [job for job in used if job["patterns"] and job["patterns"]["idle_for_a_time"]],
        "sudden drops": [job for job in used if job["patterns"] and job["patterns"]["sudden_drops"]],
        "ranks 50 points apart at a time": [job for job in used if (job["rank_imbalance"] or 0) >= 0.5],
        "fluctuating": [job for job in used if job["fluctuating"]],
        "low (U of at most 50%)": [job for job in used if job["low"]],
        "none of these": [
            job for job in used
            if not job["low"] and not job["fluctuating"] and not job["idle_slots_utilization_only"]
            and (job["rank_imbalance"] or 0) < 0.5 and not (job["patterns"] or {}).get("sudden_drops")
        ],
    }  # fmt: skip
    return [
        (name, len(found), *(sum(flagged[job["job"]] for job in found) for flagged in rules.values()))
        for name, found in kinds.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    maker = plant(args.jobs, args.seed)
    with tempfile.TemporaryDirectory() as folder:
        write(maker, Path(folder))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            gpulint(["audit", folder, "--output-format", "json"])
    answer = json.loads(out.getvalue())
    scores, wrong = compare(maker, answer)
    print(f"{len(maker.jobs)} jobs, {answer['samples']} samples")
    for name, score in scores.items():
        print(f"{name:25} F1 {score:.4f}")
    print(*wrong[:20], sep="\n")
    print(f"{'':34} audit  zero   low")
    for name, ours, zero, low in beside(answer, means(maker)):
        print(f"{name:34} {ours:5} {zero:5} {low:5}")


if __name__ == "__main__":
    main()
