"""Pods as kube-state-metrics knows them: what they request, who controls them, and when they ran.

https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/workload/pod-metrics.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpulint_audit.errors import Problems
from gpulint_audit.sources.http import QueryFailed, Server
from gpulint_audit.tables import Job

_REQUESTS = 'kube_pod_container_resource_requests{resource=~"nvidia_com_.*"}'
_ALONE = ("", "<none>", "ReplicaSet", "DaemonSet", "Node")
"""Kinds of owners whose pods are no job together."""
_USERS = ("label_user", "label_username", "label_owner", "label_created_by", "label_app_kubernetes_io_managed_by_user")
_QUEUES = ("label_kueue_x_k8s_io_queue_name", "label_queue_name", "label_queue", "label_volcano_sh_queue_name")
_DONE = {"Succeeded": "COMPLETED", "Failed": "FAILED"}


@dataclass
class Pod:
    """One pod; times are Unix seconds, None where they are unknown."""

    namespace: str
    name: str
    owner: str = ""
    """Of its controller, if the controller's pods are one job."""
    gpus: float | None = None
    created: float | None = None
    started: float | None = None
    completed: float | None = None
    phase: str = ""
    image: str = ""
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def job(self) -> str:
        """Name of the job that it is a part of."""
        return f"{self.namespace}/{self.owner or self.name}"


class Pods:
    """All pods that request GPUs, by namespace/name; empty without kube-state-metrics."""

    def __init__(self, server: Server, start: float, end: float, problems: Problems) -> None:
        self._server, self._end, self._problems = server, end, problems
        self._period = f"[{math.ceil((end - start) * 1000)}ms]"
        self._pods: dict[str, Pod] = {}
        self._each(_REQUESTS, self._requested)
        if self._pods:
            self._read()

    def job(self, namespace: str, name: str) -> str:
        """The job of a pod; without kube-state-metrics the pod itself."""
        known = self._pods.get(f"{namespace}/{name}")
        return known.job if known is not None else f"{namespace}/{name}" if namespace else name

    def jobs(self) -> dict[str, Job]:
        """A job for each controller, or pod without one; pods that have not started are left out."""
        members: dict[str, list[Pod]] = {}
        for pod in self._pods.values():
            if pod.started is not None:
                members.setdefault(pod.job, []).append(pod)
        return {name: _job(name, pods) for name, pods in members.items()}

    def _read(self) -> None:
        self._each("kube_pod_owner", self._owned)
        self._each("kube_pod_created", lambda pod, _, value: setattr(pod, "created", value))
        self._each("kube_pod_start_time", lambda pod, _, value: setattr(pod, "started", value))
        self._each("kube_pod_completion_time", lambda pod, _, value: setattr(pod, "completed", value))
        self._each("kube_pod_status_phase", self._phase, function="last_over_time")
        self._each("kube_pod_container_info", lambda pod, labels, _: setattr(pod, "image", labels.get("image", "")))
        self._each("kube_pod_labels", lambda pod, labels, _: pod.labels.update(labels))

    def _each(
        self, metric: str, take: Callable[[Pod, Mapping[str, str], float], Any], function: str = "max_over_time"
    ) -> None:
        try:
            found = self._server.instant(f"{function}({metric}{self._period})", self._end)
        except QueryFailed as error:
            self._problems.notes.append(f"{self._server.url}: {metric.partition('{')[0]} is unknown ({error})")
            return
        for series in found:
            labels = series["metric"]
            # Without honor_labels, the pod of kube-state-metrics itself has these names.
            name, namespace = (labels.get(f"exported_{key}") or labels.get(key, "") for key in ("pod", "namespace"))
            key = f"{namespace}/{name}"
            if metric == _REQUESTS:
                self._pods.setdefault(key, Pod(namespace, name))
            if (pod := self._pods.get(key)) is not None:
                take(pod, labels, float(series["value"][1]))

    @staticmethod
    def _requested(pod: Pod, _labels: Mapping[str, str], value: float) -> None:
        pod.gpus = (pod.gpus or 0.0) + value

    @staticmethod
    def _owned(pod: Pod, labels: Mapping[str, str], _value: float) -> None:
        if labels.get("owner_is_controller") == "true" and labels.get("owner_kind") not in _ALONE:
            pod.owner = labels.get("owner_name", "")

    @staticmethod
    def _phase(pod: Pod, labels: Mapping[str, str], value: float) -> None:
        if value:
            pod.phase = labels.get("phase", "")


def _job(name: str, pods: list[Pod]) -> Job:
    ends = [pod.completed for pod in pods]
    ended = None if None in ends else max(end for end in ends if end is not None)
    phases = {pod.phase for pod in pods}
    state = "FAILED" if "Failed" in phases else _DONE.get(next(iter(phases)), "") if len(phases) == 1 else ""
    created = [pod.created for pod in pods if pod.created is not None]
    labels = {key: value for pod in pods for key, value in pod.labels.items() if value}
    return Job(
        name,
        min(pod.started for pod in pods if pod.started is not None),
        ended,
        submit=min(created, default=None),
        gpus=sum(pod.gpus or 0.0 for pod in pods),
        user=_first(labels, _USERS) or pods[0].namespace,
        queue=_first(labels, _QUEUES) or pods[0].namespace,
        state=state,
        name=name.rpartition("/")[2],
        image=next((pod.image for pod in pods if pod.image), ""),
    )


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")
