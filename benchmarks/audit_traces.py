"""Statistics of public traces by ``gpulint audit``, to hold beside published ones.

    python benchmarks/audit_traces.py FOLDER

FOLDER has the traces' files in folders of their own: philly/philly.csv (siasosp23/artifacts); openb/*.csv,
dlrm/disaggregated_DLRM_trace.csv and gentd/pod_gpu_duty_cycle_anon.csv (alibaba/clusterdata); helios/<vc>/
(HeliosArtifact);
muri/<policy>/job.csv (Rivendile/Muri); lambda/pytorch/ with *_monitor.csv and the logs beside them
(lambdal/deeplearning-benchmark). The mappings ship with gpulint. Prints trace, statistic and value as CSV.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from gpulint.cli import main as gpulint


def audit(folder: Path, mapping: str | None, *options: str) -> dict[str, Any]:
    """The JSON of one audit."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        gpulint(
            ["audit", str(folder), *(["--mapping", mapping] if mapping else []), "--output-format", "json", *options]
        )
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def philly(folder: Path) -> list[tuple[str, float]]:
    found = audit(folder, "philly-sia", "--by", "queue,gpus")
    totals, jobs = found["totals"], found["jobs"]
    of_eight = sum(row["gpu_hours"] for row in found["groups"]["gpus"] if row["gpus"] == 8)
    return [
        ("jobs", totals["jobs"]),
        ("distinct clusters (VCs)", len(found["groups"]["queue"])),
        ("GPU-time share of 8-GPU jobs", of_eight / totals["gpu_hours"]),
        ("median duration s", totals["seconds"]["median"]),
        ("total GPU hours", totals["gpu_hours"]),
        ("share over 1 week", sum(job["seconds"] > 7 * 86400 for job in jobs) / len(jobs)),
    ]


def openb(folder: Path) -> list[tuple[str, float]]:
    jobs = audit(folder, "alibaba-openb-v2023")["jobs"]
    count, gpus = len(jobs), sum(job["gpus"] for job in jobs)
    with (folder / "openb_node_list_all_node.csv").open(encoding="utf-8") as file:
        nodes = list(csv.DictReader(file))
    rows: list[tuple[str, float]] = [
        ("tasks", count), ("nodes", len(nodes)), ("GPUs", sum(int(node["gpu"]) for node in nodes)),
        ("task share 0 GPU %", 100 * sum(job["gpus"] == 0 for job in jobs) / count),
        ("task share fractional %", 100 * sum(0 < job["gpus"] < 1 for job in jobs) / count),
        ("GPU-request share fractional %", 100 * sum(job["gpus"] for job in jobs if job["gpus"] < 1) / gpus),
    ]  # fmt: skip
    for size in (1, 8):
        rows.append((f"task share {size} GPU %", 100 * sum(job["gpus"] == size for job in jobs) / count))
        rows.append(
            (f"GPU-request share {size} GPU %", 100 * sum(job["gpus"] for job in jobs if job["gpus"] == size) / gpus)
        )
    return rows


def dlrm(folder: Path) -> list[tuple[str, float]]:
    jobs = audit(folder, "alibaba-dlrm-v2025")["jobs"]
    with_gpus = [job["gpus"] for job in jobs if job["gpus"]]
    return [
        ("services", len({job["user"] for job in jobs})),
        ("GPUs per GPU instance", sum(with_gpus) / len(with_gpus)),
    ]


def gentd(folder: Path) -> list[tuple[str, float]]:
    found = audit(folder, "alibaba-gentd26")
    jobs = found["jobs"]
    return [
        ("samples", found["samples"]),
        ("pods", len(jobs)),
        ("mean GPU duty % (by time, U of all GPU time)", 100 * found["totals"]["utilization"]),
        ("mean GPU duty % (of samples)", 100 * found["totals"]["of_samples"]["mean_utilization"]),
        ("share of zero samples (by time)", found["totals"]["wasted_gpu_hours"] / found["totals"]["seen_gpu_hours"]),
        ("share of zero samples (of samples)", found["totals"]["of_samples"]["zero"]),
        ("pods never used", sum(bool(job["never_used_gpus"]) for job in jobs)),
        ("coverage", found["totals"]["coverage"]),
    ]


def helios(folder: Path) -> list[tuple[str, float]]:
    rows = []
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        totals = audit(place, "helios-vc")["totals"]
        share = totals["wasted_gpu_hours"] / totals["seen_gpu_hours"]
        rows.append((f"{place.name}: share of minutes with no GPU allocated", share))
    return rows


def muri(folder: Path) -> list[tuple[str, float]]:
    rows: list[tuple[str, float]] = []
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        found = audit(place, "muri")
        totals = found["totals"]
        rows.append((f"{place.name}: mean JCT s", totals["queue_seconds"]["mean"] + totals["seconds"]["mean"]))
        rows.append((f"{place.name}: makespan s", max(job["end"] for job in found["jobs"])))
    return rows


def lambda_monitor(folder: Path) -> list[tuple[str, float]]:
    """Logs of nvidia-smi without times: a job for each, with a sample a second. A GPU is seen while at least half of
    the most memory is held."""
    files = sorted(folder.rglob("*_monitor.csv"))
    line = re.compile(r"\s*\d+\s*,\s*(\d+) %\s*,\s*(\d+) MiB\s*")
    with tempfile.TemporaryDirectory() as name, (Path(name) / "samples.csv").open("w", encoding="utf-8") as out:
        out.write("timestamp,job,gpu,gpu_utilization,gpu_memory_bytes\n")
        for number, path in enumerate(files):
            found = [line.fullmatch(text) for text in path.read_text(errors="replace").splitlines()]
            rows = [(match[1], int(match[2]) * 2**20) for match in found if match is not None]
            most = max((held for _, held in rows), default=0)
            for at, (used, held) in enumerate(rows):
                out.write(f"{at},{number},0,{used if held >= most / 2 else ''},{held}\n")
        out.close()
        jobs = audit(Path(name), None, "--percent", "gpu_utilization")["jobs"]
    usable = [
        files[int(job["job"])]
        for job in jobs
        if job["seconds"] >= 20 and job["max_gpu_memory_bytes"] > 1e9 and job["mean_utilization"] > 0.05
    ]
    usable = [path for path in usable if path.with_name(path.name.replace("_monitor.csv", ".txt")).exists()]
    return [
        ("monitor files", len(files)),
        ("parsed", sum(job["seconds"] >= 5 for job in jobs)),
        ("usable", len(usable)),
        ("machines in usable", len({path.parent.parent for path in usable})),
        ("tasks in usable", len({path.parent.name for path in usable})),
    ]


TRACES = {"philly": philly, "openb": openb, "dlrm": dlrm, "gentd": gentd, "helios": helios, "muri": muri,
          "lambda": lambda_monitor}  # fmt: skip


def main() -> None:
    folder = Path(sys.argv[1])
    writer = csv.writer(sys.stdout)
    writer.writerow(["trace", "statistic", "value"])
    for name, compute in TRACES.items():
        if (folder / name).is_dir():
            writer.writerows((name, statistic, f"{value:.6g}") for statistic, value in compute(folder / name))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
