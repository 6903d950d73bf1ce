"""How the cost of a scan grows with its input.

    python benchmarks/growth.py [--kinds REGEX] [--sizes 100,1000,10000] [--command "scan --exit-zero"] [--json FILE]
                                [--docs FILE]

For each kind of input in ``growth_inputs.py`` (lines, loops, cells, containers...) files of rising size are made, each
of at most 1 MB, and scanned in a fresh process. Printed are its CPU time (user and system), its peak resident memory
and how many times the CPU time grows when the input grows tenfold: 10 is linear. What an almost empty file of the
same kind costs is taken off before.

Exits with 1 if a kind grows faster than ``--most-growth`` or takes more than ``--most-cpu`` or ``--most-memory``. Runs
are ended at twice these limits, so none hangs. POSIX only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from growth_inputs import INPUTS, Files
from pages import put
from scan_speed import installed

_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes that ``ru_maxrss`` counts in."""
_MEASURABLE_S = 0.5
"""CPU seconds over start-up from which a growth is a growth and not noise."""


@dataclass(frozen=True, slots=True)
class Run:
    """One scan of an input of ``size`` pieces; ``failed`` says how it ended if not with a report."""

    size: int
    cpu_s: float
    peak_mb: float
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """What no kind may exceed: CPU seconds, megabytes, and the factor for a tenfold input."""

    cpu_s: float
    memory_mb: float
    growth: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default="", help="measure the kinds whose names match this regular expression")
    parser.add_argument("--sizes", default="100,1000,10000", help="numbers of pieces (default: %(default)s)")
    parser.add_argument("--command", default="scan --no-cache --exit-zero", help="(default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--docs", type=Path, metavar="FILE", help="put the table into this page")
    parser.add_argument("--most-cpu", type=float, default=10, help="seconds (default: %(default)s)")
    parser.add_argument("--most-memory", type=float, default=500, help="megabytes (default: %(default)s)")
    parser.add_argument("--most-growth", type=float, default=15, help="for a tenfold input (default: %(default)s)")
    args = parser.parse_args()
    kinds = [name for name in INPUTS if re.search(args.kinds, name)]
    if not kinds:
        parser.error(f"no kind matches {args.kinds!r}")
    sizes = sorted(int(size) for size in args.sizes.split(","))
    limits = Limits(args.most_cpu, args.most_memory, args.most_growth)
    command = [sys.executable, "-m", "gpulint", *shlex.split(args.command), "--isolated"]
    lines = [head(sizes)]
    print(lines[0], flush=True)
    figures: dict[str, list[Run]] = {}
    bad: dict[str, list[str]] = {}
    for name in kinds:
        figures[name] = measured(name, sizes, command, limits)
        lines.append(row(name, figures[name], sizes))
        print(lines[-1], flush=True)
        if found := exceeded(figures[name], limits):
            bad[name] = found
    if args.json:
        args.json.write_text(json.dumps({name: [asdict(run) for run in runs] for name, runs in figures.items()}))
    if args.docs:
        put(args.docs, "growth.py", lines)
    for name, reasons in bad.items():
        print(f"{name}: {'; '.join(reasons)}", file=sys.stderr)
    return 1 if bad else 0


def measured(name: str, sizes: Sequence[int], command: Sequence[str], limits: Limits) -> list[Run]:
    """Scans of one kind: first an almost empty input, then rising sizes up to the first that fails or is cut."""
    runs: list[Run] = []
    for size in (1, *sizes):
        made, files = INPUTS[name](size)
        runs.append(scanned(made, files, command, limits))
        if runs[-1].failed or made < size:
            break
    return runs


def scanned(size: int, files: Files, command: Sequence[str], limits: Limits) -> Run:
    """Scan a folder with these files in a process of its own."""

    def confine() -> None:
        seconds, memory = math.ceil(2 * limits.cpu_s), int(2 * limits.memory_mb * 2**20)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (memory + 2**29, memory + 2**29))

    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                [*command, "."],
                cwd=folder,  # not where the benchmark was started: -m would take a gpulint from there
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=installed(),
                preexec_fn=confine,
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            errors.seek(0)
            said = errors.read().decode(errors="replace")
    failed = ""
    if process.returncode not in (0, 1):
        failed = "too slow" if process.returncode < 0 else f"exit code {process.returncode}: {said[-300:]}"
    return Run(size, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _PEAK_UNIT / 1e6, failed)


def growth(runs: Sequence[Run]) -> float | None:
    """How many times the last step to a larger input multiplies the CPU time, for one of ten times the size."""
    if len(runs) < 3:
        return None
    start, before, after = runs[0].cpu_s, runs[-2], runs[-1]
    if after.size <= before.size or after.cpu_s - start < _MEASURABLE_S:
        return None
    # Less than a tenth of a second cannot be told from noise.
    ratio = (after.cpu_s - start) / max(before.cpu_s - start, 0.1)
    return float(ratio ** (1 / math.log10(after.size / before.size)))


def exceeded(runs: Sequence[Run], limits: Limits) -> list[str]:
    """What is wrong with a kind."""
    found = [f"{run.failed} at {run.size}" for run in runs if run.failed]
    factor = growth(runs)
    if factor is not None and factor > limits.growth:
        found.append(f"grows {factor:.0f}-fold for a tenfold input")
    found += [f"{run.cpu_s:.1f} s of CPU at {run.size}" for run in runs if run.cpu_s > limits.cpu_s]
    found += [f"{run.peak_mb:.0f} MB at {run.size}" for run in runs if run.peak_mb > limits.memory_mb]
    return found


def head(sizes: Sequence[int]) -> str:
    """The first two lines of the Markdown table."""
    columns = ["input", *(f"{size:,}" for size in sizes), "growth", "peak"]
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def row(name: str, runs: Sequence[Run], sizes: Sequence[int]) -> str:
    """A line of the Markdown table; an input that 1 MB cuts short shows its size."""
    cells = []
    for size, run in zip(sizes, runs[1:], strict=False):
        cut = f" ({run.size:,})" if run.size < size else ""
        cells.append(f"{'> ' if run.failed else ''}{run.cpu_s:.2f} s{cut}")
    cells += [""] * (len(sizes) - len(cells))
    factor = growth(runs)
    return f"| {name} | {' | '.join(cells)} | {'' if factor is None else f'{factor:.0f}'} | {runs[-1].peak_mb:.0f} MB |"


if __name__ == "__main__":
    sys.exit(main())
