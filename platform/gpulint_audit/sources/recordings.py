"""Recordings of ``gpulint probe``: one is a job, or the part of one that ran on one node."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from gpulint_audit.errors import Problems
from gpulint_audit.sources.memory import Samples
from gpulint_audit.tables import Job, Tables


def inside(folder: Path) -> list[Path]:
    """Recordings in a folder that has nothing else to audit."""
    if any(folder.glob("samples*")) or any(folder.glob("jobs*")):
        return []
    return sorted(folder.glob("*.jsonl"))


def load(connection: Any, paths: list[Path], problems: Problems) -> Tables:
    """One job per recording, named like its file. A recording that cannot be read is left out."""
    from gpulint_probe.recording import Recording, RecordingError

    samples = Samples(connection, "audit_recordings")
    jobs = []
    for path in paths:
        try:
            recording = Recording.read(path)
        except RecordingError as error:
            problems.missing.append(f"{error}; this recording is left out")
            continue
        name = path.name.removesuffix(".jsonl")
        jobs.append(_job(name, recording))
        _add_samples(samples, name, recording)
    return Tables(jobs, samples.table(), [str(path) for path in paths])


def _job(name: str, recording: Any) -> Job:
    times = [sample.time_s for sample in recording.gpu_samples]
    end = recording.ended if recording.ended is not None else max(times, default=recording.started)
    state = "" if recording.exit_code is None else "COMPLETED" if recording.exit_code == 0 else "FAILED"
    kinds = dict.fromkeys(gpu.name for gpu in recording.gpus)
    return Job(
        name, recording.started, end, gpus=float(len(recording.gpus)), state=state,
        command=shlex.join(recording.command), workdir=recording.cwd, gpu_type=", ".join(kinds),
    )  # fmt: skip


def _add_samples(samples: Samples, name: str, recording: Any) -> None:
    """A sample of the probe stands for the interval that ends with it: it is moved to where that interval began."""
    gpus = {gpu.index: gpu for gpu in recording.gpus}
    hosts = [
        (host.time_s, host.cpu_cores_used / host.cpu_count if host.cpu_count else None, host.memory_bytes)
        for host in recording.host_samples
    ]
    place = 0
    before: dict[int, float] = {}
    for sample in sorted(recording.gpu_samples, key=lambda sample: sample.time_s):
        while place + 1 < len(hosts) and hosts[place + 1][0] <= sample.time_s:
            place += 1
        _, cpu, memory = hosts[place] if hosts else (0.0, None, None)
        gpu = gpus[sample.gpu]
        interval = recording.interval_s
        last = before.get(sample.gpu, sample.time_s - interval)
        near = sample.time_s - last <= 3 * interval
        before[sample.gpu] = sample.time_s
        samples.add(
            {
                "timestamp": last if near else sample.time_s - interval, "job": name,
                "gpu": f"{gpu.uuid or gpu.index}" + (f" {gpu.mig}" if gpu.mig else ""),
                "gpu_utilization": sample.utilization if sample.utilization is not None else sample.sm_activity,
                "sm_activity": sample.sm_activity, "gpu_memory_bytes": sample.memory_used_bytes,
                "gpu_memory_total_bytes": gpu.memory_bytes or None,
                "cpu_utilization": None if cpu is None else min(cpu, 1.0),
                "memory_bytes": memory, "power_w": sample.power_w, "energy_j": sample.energy_j,
            }
        )  # fmt: skip
