"""Samples and jobs from Prometheus, Thanos or VictoriaMetrics that scrape DCGM's exporter.

Raw samples are asked for by range selectors (``metric[1h]``), so that scrape times stay as they are: a range query
would fill gaps of up to five minutes with old values. Jobs are those that labels name: ``hpc_job`` and ``slurm_job_id``
of exporters for Slurm, pods of dcgm-exporter on Kubernetes with requests of kube-state-metrics.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpulint_audit.errors import AuditError, Problems
from gpulint_audit.parameters import Parameters
from gpulint_audit.sources.http import QueryFailed, Server
from gpulint_audit.sources.memory import Samples
from gpulint_audit.tables import Job, Tables

MIB = 2.0**20
METRICS = {
    "DCGM_FI_DEV_GPU_UTIL": ("gpu_utilization", 0.01),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gr_engine", 1.0),
    "DCGM_FI_PROF_SM_ACTIVE": ("sm_activity", 1.0),
    "DCGM_FI_DEV_FB_USED": ("gpu_memory_bytes", MIB),
    "DCGM_FI_DEV_FB_FREE": ("free", MIB),
    "DCGM_FI_DEV_FB_TOTAL": ("gpu_memory_total_bytes", MIB),
    "DCGM_FI_DEV_POWER_USAGE": ("power_w", 1.0),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("energy_j", 0.001),
}
"""Columns and factors of DCGM's fields; MIG instances have no GPU_UTIL, only the graphics engine's activity."""
EVENTS = {
    "DCGM_FI_DEV_XID_ERRORS": "reports XID errors",
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": "was throttled (reasons other than idle)",
}
"""What GPUs report besides; the last XID, and bits of reasons of which 1 means idle."""
JOB_LABELS = ("hpc_job", "slurm_job_id", "slurmjobid", "jobid", "job_id", "exported_pod", "pod")
USER_LABELS = ("user", "hpc_user", "slurm_user", "username", "exported_namespace", "namespace")
QUEUE_LABELS = ("partition", "slurm_partition", "queue", "exported_namespace", "namespace")
_CHUNK_S = 6 * 3600.0
_SMALLEST_S = 600.0
_PERIOD_S = 86400.0
"""Asked for without --since."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to ask a server."""

    url: str
    match: str = ""
    job_label: str | None = None
    chunk_s: float = _CHUNK_S
    pause_s: float = 1.0


def load(connection: Any, options: Options, parameters: Parameters, problems: Problems) -> Tables:
    """Samples of the period (without --since: the last day). What the server cannot answer is left out and said.

    Raises AuditError if there is no server or nothing of DCGM.
    """
    end = parameters.until if math.isfinite(parameters.until) else time.time()
    start = parameters.since if math.isfinite(parameters.since) else end - _PERIOD_S
    server = Server(options.url, options.pause_s)
    server.check()
    reader = _Reader(connection, server, options, problems)
    at = start
    while at < end:
        until = min(at + options.chunk_s, end)
        reader.chunk(at - 0.001 if at == start else at, until)
        at = until
    reader.events(start, end)
    for warning in server.warnings:
        problems.missing.append(f"{options.url}: {warning}")
    if not reader.samples.count:
        if problems.missing:
            raise AuditError(problems.missing[0])
        raise AuditError(f"{options.url}: no DCGM figures of jobs in this period{reader.hint(start, end)}")
    return Tables(reader.jobs(start, end), reader.samples.table(), [options.url])


class _Reader:
    def __init__(self, connection: Any, server: Server, options: Options, problems: Problems) -> None:
        self._server, self._options, self._problems = server, options, problems
        self.samples = Samples(connection, "audit_prometheus")
        self._first: dict[str, float] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._gpus: dict[str, set[tuple[str, str]]] = {}
        self._without_job = 0
        self._failed: set[str] = set()

    def chunk(self, start: float, end: float) -> None:
        """Samples later than ``start`` and not later than ``end``."""
        rows: dict[tuple[str, str, str, float], dict[str, Any]] = {}
        for metric, (column, factor) in METRICS.items():
            for series in self._raw(metric, start, end):
                place = self._place(series["metric"])
                if place is None:
                    self._without_job += 1
                    continue
                for at, value in series["values"]:
                    # DCGM has a value for "not available" that is far above any figure.
                    if start < float(at) <= end and float(value) < 1e15:
                        rows.setdefault((*place, float(at)), {})[column] = float(value) * factor
        for (job, node, gpu, at), row in rows.items():
            self._add(job, node, gpu, at, row)

    def _raw(self, metric: str, start: float, end: float) -> Iterator[Mapping[str, Any]]:
        """Raw samples; where the server refuses so many at once, the period is halved."""
        selector = f"{metric}{{{self._options.match}}}" if self._options.match else metric
        try:
            yield from self._server.instant(f"{selector}[{math.ceil((end - start) * 1000)}ms]", end)
        except QueryFailed as error:
            if end - start > _SMALLEST_S and "HTTP 422" in str(error):
                middle = (start + end) / 2
                yield from self._raw(metric, start, middle)
                yield from self._raw(metric, middle, end)
            elif f"{metric}{error}" not in self._failed:
                self._failed.add(f"{metric}{error}")
                self._problems.missing.append(f"{self._options.url}: {metric}: {error}")

    def _place(self, labels: Mapping[str, str]) -> tuple[str, str, str] | None:
        """Job, node and GPU (or MIG instance) of a series."""
        label = self._options.job_label
        job = labels.get(label, "") if label else next((labels[name] for name in JOB_LABELS if labels.get(name)), "")
        if not job:
            return None
        if not label and "exported_namespace" in labels and job == labels.get("exported_pod"):
            job = f"{labels['exported_namespace']}/{job}"
        gpu = labels.get("UUID") or labels.get("uuid") or labels.get("gpu", "")
        if labels.get("GPU_I_ID"):
            gpu = f"{gpu} {labels['GPU_I_ID']} {labels.get('GPU_I_PROFILE', '')}".strip()
        node = labels.get("Hostname") or labels.get("hostname") or labels.get("node") or labels.get("instance", "")
        self._labels.setdefault(job, labels)
        self._gpus.setdefault(job, set()).add((node, gpu))
        return job, node, gpu

    def _add(self, job: str, node: str, gpu: str, at: float, row: dict[str, Any]) -> None:
        engine, free = row.pop("gr_engine", None), row.pop("free", None)
        row.setdefault("gpu_utilization", engine)
        if "gpu_memory_total_bytes" not in row and free is not None and "gpu_memory_bytes" in row:
            row["gpu_memory_total_bytes"] = free + row["gpu_memory_bytes"]
        self._first[job] = min(self._first.get(job, at), at)
        self.samples.add({"timestamp": at, "job": job, "node": node, "gpu": gpu, **row})

    def events(self, start: float, end: float) -> None:
        """Say which GPUs had errors or were throttled."""
        for metric, what in EVENTS.items():
            matched = f"{metric}{{{self._options.match}}}"
            query = f"max_over_time({matched}[{math.ceil((end - start) * 1000)}ms]) > 1"
            try:
                found = self._server.instant(query, end)
            except QueryFailed:
                continue  # that the server has no answers was said for the figures
            places = sorted({f"{s['metric'].get('Hostname', '?')} GPU {s['metric'].get('gpu', '?')}" for s in found})
            if places:
                more = f" and {len(places) - 5} more" if len(places) > 5 else ""
                self._problems.notes.append(f"{', '.join(places[:5])}{more} {what}")

    def jobs(self, start: float, end: float) -> list[Job]:
        """Jobs by their labels, from their first to their last sample."""
        requests = self._requests(start, end)
        found = []
        for job, first in self._first.items():
            labels = self._labels[job]
            user = next((labels[name] for name in USER_LABELS if labels.get(name)), "")
            queue = next((labels[name] for name in QUEUE_LABELS if labels.get(name)), "")
            found.append(
                Job(job, first, None, gpus=requests.get(job, float(len(self._gpus[job]))),
                    user=user, queue=queue, gpu_type=labels.get("modelName", ""))
            )  # fmt: skip
        if self._without_job:
            self._problems.notes.append(f"{self._options.url}: GPUs without a label of a job are left out")
        return found

    def _requests(self, start: float, end: float) -> dict[str, float]:
        """GPUs that pods request, by kube-state-metrics."""
        query = 'max_over_time(kube_pod_container_resource_requests{resource=~"nvidia_com_.*"}[%dms])'
        found: dict[str, float] = {}
        try:
            for series in self._server.instant(query % math.ceil((end - start) * 1000), end):
                labels = series["metric"]
                pod, namespace = labels.get("pod", ""), labels.get("namespace", "")
                for name in (pod, f"{namespace}/{pod}"):
                    found[name] = found.get(name, 0.0) + float(series["value"][1])
        except QueryFailed as error:
            self._problems.notes.append(f"{self._options.url}: requests of pods are unknown ({error})")
        return found

    def hint(self, start: float, end: float) -> str:
        """What the server does have."""
        if self._without_job:
            label = self._options.job_label
            wanted = f"label {label!r}" if label else f"label of a job ({', '.join(JOB_LABELS)})"
            return f"; it has figures, but without a {wanted}: pass --job-label"
        try:
            known = [name for name in self._server.labels("__name__", start, end) if name.startswith("DCGM")]
        except QueryFailed:
            return ""
        return f"; it has {', '.join(known[:5])}" if known else "; it has no metrics DCGM_FI_* at all"
