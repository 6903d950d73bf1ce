"""F1 of ``gpulint audit`` for every definition on planted series, and what a rule on means finds in the same series.

    python benchmarks/audit_planted.py [--jobs 1500] [--seed 7]

The oracle is tests/audit/oracle.py. The rule on means is that of job_defense_shield's alerts as documented: GPUs whose
mean utilization is 0, and jobs whose mean utilization is below 15%.
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

_LOW_MEAN = 0.15
_LONG_S = 300.0
"""Shortest idle time that counts here as waste to report."""


def means(maker: Maker) -> dict[str, bool]:
    """Jobs that a rule on means of samples reports."""
    found = {}
    for job in maker.jobs:
        by_gpu: dict[str, list[float]] = {}
        for row in maker.samples[job["job"]]:
            if row["gpu_utilization"] is not None:
                by_gpu.setdefault(f"{row.get('node')}:{row['gpu']}", []).append(row["gpu_utilization"])
        each = [sum(values) / len(values) for values in by_gpu.values()]
        found[job["job"]] = bool(each) and (min(each) == 0 or sum(each) / len(each) < _LOW_MEAN)
    return found


def beside(maker: Maker, answer: dict[str, Any]) -> list[tuple[str, int, int]]:
    """By kind of waste: jobs that the audit reports, and those of them that the rule on means reports, too."""
    flagged = means(maker)
    kinds = {
        "GPUs never used": lambda job: bool(job["never_used_gpus"]),
        f"idle at the end for {_LONG_S:g} s": lambda job: (
            not job["never_used_gpus"] and (job["idle_at_end_seconds"] or 0) >= _LONG_S
        ),
        f"idle at the start for {_LONG_S:g} s": lambda job: (
            not job["never_used_gpus"] and (job["idle_at_start_seconds"] or 0) >= _LONG_S
        ),
        "idle slots": lambda job: not job["never_used_gpus"] and bool(job["idle_slots"]),
        "fluctuating": lambda job: bool(job["fluctuating"]),
    }
    rows = []
    for name, test in kinds.items():
        ours = [job["job"] for job in answer["jobs"] if test(job)]
        rows.append((name, len(ours), sum(flagged[job] for job in ours)))
    return rows


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
    for name, ours, theirs in beside(maker, answer):
        print(f"{name:30} audit {ours:5}   rule on means {theirs:5}")


if __name__ == "__main__":
    main()
