"""Whether the probe's samples see short Python code between calls that release the interpreter lock.

    python benchmarks/probe_bias.py [--runs N] [--seconds S]

The program runs Python code and a call in C in turns, a fraction of a millisecond each, and measures the CPU time of
both. A sampler that waits for the interpreter as long as Python's own 5 ms is let in only by the call: it would never
see the Python code. Printed are, for each run, the share of the Python code in the CPU time and in the samples, with
the load of the machine: without a free core the sampler is more patient on purpose, and the second share falls.
On an idle machine, the second should be at least half of the first.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from gpulint_probe.recording import Recording

_PROBE = [sys.executable, "-m", "gpulint", "probe", "--source", "none", "--interval", "0.1", "-q"]
_PROGRAM = """
import sys, time, zlib
data = bytes(400_000)
def play():
    for _ in range(20_000): pass
def call():
    zlib.crc32(data)
spent, end = [0.0, 0.0], time.time() + float(sys.argv[1])
while time.time() < end:
    for index, part in enumerate([play, call]):
        start = time.thread_time()
        part()
        spent[index] += time.thread_time() - start
print(spent[0] / sum(spent))
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0, help="length of a run (default: 6)")
    arguments = parser.parse_args()
    print("cpu share  sample share  samples  load")
    for _ in range(arguments.runs):
        with tempfile.TemporaryDirectory() as folder:
            measured, seen, count = _run(Path(folder), arguments.seconds)
        print(f"{measured:9.0%}  {seen:12.0%}  {count:7}  {os.getloadavg()[0]:.1f}", flush=True)


def _run(folder: Path, seconds: float) -> tuple[float, float, int]:
    """Return the share of the Python code in the CPU time and in the samples of both parts, and their number."""
    program = folder / "job.py"
    program.write_text(_PROGRAM)
    command = [*_PROBE, "-o", str(folder / "recording"), "--", sys.executable, str(program), str(seconds)]
    measured = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    recording = Recording.read(folder / "recording")
    innermost = {stack.id: stack.functions[0] for stack in recording.stacks}
    samples = {"play": 0, "call": 0}
    for counts in recording.stack_counts:
        for stack, count in zip(counts.stacks, counts.samples, strict=True):
            if innermost[stack] in samples:
                samples[innermost[stack]] += count
    total = sum(samples.values())
    return measured, samples["play"] / max(total, 1), total


if __name__ == "__main__":
    main()
