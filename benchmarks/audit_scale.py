"""Time and peak memory of ``gpulint audit`` over 1, 10 and 100 million samples in one Parquet file.

    python benchmarks/audit_scale.py 1000000 10000000 --memory 1200MB

Jobs have four GPUs, a sample of each every 15 s, and live for 2.6 h (2500 samples); samples are in the order of time,
as a monitoring system exports them. Peak memory is the resident set of the whole process (getrusage).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

PER_GPU, GPUS, EVERY, START = 625, 4, 15, 1_760_000_000


def plant(folder: Path, samples: int) -> None:
    """jobs.csv and samples.parquet with ``samples`` rows."""
    jobs = max(samples // (PER_GPU * GPUS), 1)
    connection = duckdb.connect(config={"memory_limit": "2GB", "temp_directory": str(folder / "spill")})
    life = PER_GPU * EVERY
    connection.execute(
        f"""COPY (SELECT 'job-' || i AS job, 'user-' || (i % 97) AS user, 'q' || (i % 7) AS queue,
        {START} + i % 1000 * 60 - 30 AS submit, {START} + i % 1000 * 60 AS start,
        {START} + i % 1000 * 60 + {life} AS end,
        {GPUS} AS gpus, 'train' AS kind FROM range({jobs}) t(i)) TO '{folder}/jobs.csv' (HEADER)"""
    )
    connection.execute(
        f"""COPY (SELECT ({START} + i % 1000 * 60 + s * {EVERY})::DOUBLE AS timestamp, 'job-' || i AS job,
        g::VARCHAR AS gpu, CASE WHEN (s // 8 + i) % 5 = 0 OR g = 3 AND i % 9 = 0 THEN 0.0
        ELSE ((i * 31 + s * 17 + g) % 100) / 100.0 END AS gpu_utilization,
        CASE WHEN (s // 8 + i) % 10 = 0 THEN 0.0 ELSE (1 + i % 60) * 1e9 END AS gpu_memory_bytes,
        8e10 AS gpu_memory_total_bytes, ((i + s) % 100) / 100.0 AS cpu_utilization, 200.0 + s % 300 AS power_w,
        'node-' || (i % 500) AS node
        FROM range({PER_GPU}) a(s), range({jobs}) b(i), range({GPUS}) c(g)) TO '{folder}/samples.parquet'"""
    )


def measure(folder: Path, options: list[str]) -> dict[str, float]:
    """Seconds and peak memory of one audit."""
    command = [
        sys.executable,
        "-m",
        "gpulint",
        "audit",
        str(folder),
        "--output-format",
        "json",
        "-o",
        f"{folder}/a.json",
    ]
    before, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, *options], check=True)
    seconds, after = time.perf_counter() - before, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    peak = after.ru_maxrss / 1024
    audit = json.loads((folder / "a.json").read_text(encoding="utf-8"))
    figures = {"seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1), "peak_mib": round(peak)}
    return {"samples": audit["samples"], "jobs": len(audit["jobs"]), **figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("samples", type=int, nargs="+")
    parser.add_argument("--memory")
    parser.add_argument("--folder", type=Path, help="for temporary files")
    args = parser.parse_args()
    for samples in sorted(args.samples):  # the peak is that of the largest child so far
        with tempfile.TemporaryDirectory(dir=args.folder) as name:
            plant(Path(name), samples)
            size = (Path(name) / "samples.parquet").stat().st_size / 1e6
            row = measure(Path(name), ["--memory", args.memory] if args.memory else [])
            print(json.dumps({**row, "parquet_mb": round(size)}), flush=True)


if __name__ == "__main__":
    main()
