"""What ``gpulint probe`` costs: the same CPU training loop with and without it, in turns.

    python benchmarks/probe_overhead.py [--pairs N] [--seconds S] [--source auto] [--interval 1s]

The job does a fixed number of steps of a small NumPy network, with a line of output per step. A pair is one bare and
one probed run, and every second pair starts with the probed one. Printed are the medians over the pairs of

* the job's own CPU time, probed against bare: what the job itself feels;
* CPU time of job and probe together against the bare job: what the machine feels;
* the probe's CPU time per second of the run without what starting it takes, which is paid once. The start is measured
  on the command ``true``.

The target is 1 % for the first, and 1 % of a core for the third. The second falls with the length of the run, as it has
the start in it.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

_JOB = """
import os, sys, time
import numpy as np

steps = int(sys.argv[1])
random = np.random.default_rng(0)
x, y = random.normal(size=(256, 512)), random.normal(size=(256, 10))
a, b = random.normal(size=(512, 512)) / 23, random.normal(size=(512, 10)) / 23
for step in range(steps):
    hidden = np.maximum(x @ a, 0)
    error = (hidden @ b - y) / len(x)
    back = (error @ b.T) * (hidden > 0)
    b -= 0.01 * hidden.T @ error
    a -= 0.01 * x.T @ back
    print(f"step {step}: loss {float((error ** 2).mean()):.6f}", flush=True)
used = os.times()
print(f"cpu {used.user + used.system}", file=sys.stderr)
"""


class Run(NamedTuple):
    """Seconds."""

    job_cpu: float
    all_cpu: float
    wall: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a bare run, roughly (default: 20)")
    parser.add_argument("--source", default="auto")
    parser.add_argument("--interval", default="1s")
    args = parser.parse_args()
    probe = [sys.executable, "-m", "gpulint", "probe", "--source", args.source, "--interval", args.interval, "--"]

    first = _run([], 100)
    steps = max(int(100 * args.seconds / max(first.job_cpu, 1e-3)), 100)
    start = statistics.median(_start(probe) for _ in range(5))
    pairs: list[tuple[Run, Run]] = []
    for number in range(args.pairs):
        if number % 2:
            probed = _run(probe, steps)
            bare = _run([], steps)
        else:
            bare = _run([], steps)
            probed = _run(probe, steps)
        pairs.append((bare, probed))
        print(
            f"pair {number + 1}: bare {bare.job_cpu:.2f} s, probed {probed.job_cpu:.2f} s, "
            f"probe {probed.all_cpu - probed.job_cpu:.2f} s of CPU in {probed.wall:.1f} s"
        )

    def median(of: list[float]) -> float:
        return statistics.median(of)

    print(f"{steps} steps, {args.pairs} pairs, source {args.source}, one sample per {args.interval}")
    print(f"job's own CPU, probed / bare   {median([on.job_cpu / off.job_cpu for off, on in pairs]):.4f}")
    print(f"all CPU, probed / bare         {median([on.all_cpu / off.all_cpu for off, on in pairs]):.4f}")
    steady = median([(on.all_cpu - on.job_cpu - start) / on.wall for _, on in pairs])
    print(f"probe's CPU, share of a core   {steady:.4f}, and {start:.2f} s once")


def _run(prefix: list[str], steps: int) -> Run:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    before, started = _children(), time.monotonic()
    done = subprocess.run(
        [*prefix, sys.executable, "-c", _JOB, str(steps)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    wall = time.monotonic() - started
    cpu = next(float(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("cpu "))
    return Run(cpu, _children() - before, wall)


def _start(prefix: list[str]) -> float:
    before = _children()
    subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL, check=True)
    return _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
