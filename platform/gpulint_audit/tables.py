"""The two tables that every source is turned into."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

SAMPLE_COLUMNS = {
    "timestamp": "float64",
    "job": "string",
    "gpu": "string",
    "gpu_utilization": "float64",
    "sm_activity": "float64",
    "gpu_memory_bytes": "float64",
    "gpu_memory_total_bytes": "float64",
    "gpu_fraction": "float64",
    "cpu_utilization": "float64",
    "memory_bytes": "float64",
    "memory_total_bytes": "float64",
    "power_w": "float64",
    "energy_j": "float64",
    "pcie_tx_bytes_s": "float64",
    "pcie_rx_bytes_s": "float64",
    "nvlink_tx_bytes_s": "float64",
    "nvlink_rx_bytes_s": "float64",
    "throttle_reasons": "float64",
    "xid": "float64",
    "node": "string",
}
"""Columns of ``samples``: seconds, ratios from 0 to 1, bytes, watts; ``energy_j`` is a counter, ``throttle_reasons``
NVML's bit mask, ``xid`` the last error; traffic is what the GPU sends (tx) and receives (rx)."""
REQUIRED_OF_SAMPLES = ("timestamp", "job", "gpu", "gpu_utilization")
RATIOS = ("gpu_utilization", "sm_activity", "cpu_utilization", "gpu_fraction")
REQUIRED_OF_JOBS = ("job", "start")
JOB_COLUMNS = (
    "job user queue submit start end gpus kind state name command workdir image repository gpu_type".split()
)  # fmt: skip
SERIES = ("job_id", "series")
"""One GPU, or MIG instance, of one job, by number."""


@dataclass(slots=True)
class Job:
    """One row of ``jobs``. ``end`` is None for a job that runs on, ``gpus`` where the request is unknown."""

    job: str
    start: float
    end: float | None = None
    submit: float | None = None
    gpus: float | None = None
    user: str = ""
    queue: str = ""
    kind: str = ""
    state: str = ""
    name: str = ""
    command: str = ""
    workdir: str = ""
    image: str = ""
    repository: str = ""
    gpu_type: str = ""


@dataclass
class Tables:
    """What a source has read: ``samples`` is an Ibis table with (some of) ``SAMPLE_COLUMNS``."""

    jobs: list[Job]
    samples: Any
    sources: list[str] = field(default_factory=list)
    """What was read, for the report."""
    first_duplicate: Callable[[], str] = lambda: ""
    """Names the place of the first sample that was there already."""


def expected_gpus(gpus: float | None, seen: int, fractional: bool = False) -> int:
    """GPUs or MIG instances whose samples a job should have."""
    if not gpus or gpus <= 0:
        return seen
    return max(math.ceil(gpus), seen) if fractional else math.ceil(gpus)
