"""Cost of ``gpulint scan`` beside that of parsing the same code with ``ast``.

    python benchmarks/scan_speed.py [--runs N] [--select CODES] TREE [TREE ...]

Each tree (a folder that is already on disk; nothing is fetched) is measured ``N`` times (default 3), in turns:

* *parse*: a fresh interpreter calls ``ast.parse`` on every ``.py`` file of the tree that gpulint discovers;
* *scan*: ``python -m gpulint scan --jobs 1`` over the tree, start of the interpreter included.

Printed per tree: medians of CPU time (user and system), wall time and peak resident memory of either, both times per
1,000 lines of Python, and the ratio of the CPU times. Wall time means little on a busy machine; CPU time and the ratio
hold. POSIX only (``os.wait4`` counts the CPU time and memory of a child).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PARSE = """
import ast, sys, warnings
warnings.simplefilter("ignore")
for path in sys.stdin.read().split("\\0"):
    try:
        with open(path, "rb") as file:
            ast.parse(file.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        pass
"""
_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes that ``ru_maxrss`` counts in."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one process: CPU and wall time in seconds, peak resident memory in bytes."""

    cpu_s: float
    wall_s: float
    peak: float


def measure(command: Sequence[str], stdin: bytes = b"") -> Cost:
    """Run a command to its end; raises RuntimeError if it fails otherwise than by finding something."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * _PEAK_UNIT)


def median(costs: Sequence[Cost]) -> Cost:
    """The median of each figure by itself."""
    return Cost(
        statistics.median(cost.cpu_s for cost in costs),
        statistics.median(cost.wall_s for cost in costs),
        statistics.median(cost.peak for cost in costs),
    )


def python_files(tree: Path) -> list[Path]:
    """The ``.py`` files that a scan of ``tree`` covers."""
    from gpulint.config import load
    from gpulint.discover import discover, project_root

    found = discover([tree], load(tree), project_root([tree]))
    return [path for path in found.files if path.suffix == ".py"]


def report(tree: Path, runs: int, select: str) -> str:
    """Measure one tree; two lines of a table."""
    files = python_files(tree)
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    listing = "\0".join(map(str, files)).encode()
    scan_command = [sys.executable, "-m", "gpulint", "scan", "--jobs", "1", "--select", select, str(tree)]
    parses, scans = [], []
    for _ in range(runs):
        parses.append(measure([sys.executable, "-c", _PARSE], listing))
        scans.append(measure(scan_command))
    parse, scan = median(parses), median(scans)
    thousands = max(lines, 1) / 1000
    head = f"{tree.name}: {len(files):,} Python files, {lines:,} lines, CPU ratio {scan.cpu_s / parse.cpu_s:.1f}"
    rows = [
        f"  {name:5}  CPU {cost.cpu_s:7.2f} s ({cost.cpu_s / thousands * 1000:6.1f} ms per 1,000 lines)"
        f"  wall {cost.wall_s:7.2f} s ({cost.wall_s / thousands * 1000:6.1f} ms)  peak {cost.peak / 2**20:6.0f} MiB"
        for name, cost in (("parse", parse), ("scan", scan))
    ]
    return "\n".join([head, *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of a scan beside that of parsing the same files.")
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each kind (default 3)")
    parser.add_argument("--select", default="ALL", metavar="CODES", help="rules to run (default ALL)")
    args = parser.parse_args()
    for tree in args.trees:
        print(report(tree.resolve(), max(args.runs, 1), args.select), flush=True)


if __name__ == "__main__":
    main()
