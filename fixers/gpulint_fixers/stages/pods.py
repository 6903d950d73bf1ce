"""A Kubernetes Job that does what a pod does before its program uses GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gpulint.records import dataclass
from gpulint_fixers.edits.yaml_items import named

VOLUME = "a PersistentVolumeClaim or another shared volume"
_SHARED = ("persistentVolumeClaim", "nfs", "cephfs", "azureFile", "glusterfs", "csi", "flexVolume", "quobyte")
"""Kinds of volumes that outlive a pod, and that a pod on another node sees."""
_OF_POD = ("imagePullSecrets", "serviceAccountName", "securityContext", "priorityClassName", "dnsPolicy")
_OF_CONTAINER = ("image", "imagePullPolicy", "workingDir", "env", "envFrom", "securityContext")
LABELS = ("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class")
"""Labels that a stage keeps: the queue that admits it, and with what priority."""
_MAX_DEPTH = 30


@dataclass(frozen=True, slots=True)
class Found:
    """A container, its pod's specification, and the object that holds it."""

    container: dict[str, Any]
    pod: dict[str, Any]
    top: dict[str, Any]


def find(spec: dict[str, Any], script: str) -> Found | None:
    """The container that runs ``script``, if it is the only one."""
    found = [
        Found(container, pod, spec)
        for pod in _pods(spec, 0)
        for container in pod["containers"]
        if isinstance(container, dict) and _runs(container, lines(script))
    ]
    return found[0] if len(found) == 1 else None


def _pods(node: object, depth: int) -> Iterator[dict[str, Any]]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(node, dict):
        if isinstance(node.get("containers"), list):
            yield node
        for value in node.values():
            yield from _pods(value, depth + 1)
    elif isinstance(node, list):
        for value in node:
            yield from _pods(value, depth + 1)


def _runs(container: dict[str, Any], script: list[str]) -> bool:
    texts = [text for key in ("command", "args") for text in container.get(key) or () if isinstance(text, str)]
    return any(lines(text) == script for text in texts)


def lines(text: str) -> list[str]:
    """The lines of a script that say something, as they may differ by indentation alone."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def uncertain(found: Found) -> str:
    """A field of the pod that its first steps may need, and that a stage would have to have as well."""
    return "initContainers" if found.pod.get("initContainers") else ""


def name_of(spec: dict[str, Any]) -> str:
    """The object's name."""
    metadata = spec.get("metadata")
    name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else ""
    return str(name or "").rstrip("-")


def options(spec: dict[str, Any]) -> str:
    """Return what ``kubectl`` needs to find the object by its name."""
    namespace = (spec.get("metadata") or {}).get("namespace")
    return f"--namespace={namespace} " if namespace else ""


def verb(spec: dict[str, Any]) -> str:
    """The command of ``kubectl`` that starts the object; one whose name the server makes is new each time."""
    metadata = spec.get("metadata") or {}
    return "create" if metadata.get("generateName") and not metadata.get("name") else "apply"


def shared_folders(found: Found) -> list[str]:
    """Return where volumes that another pod sees as well are mounted for writing."""
    volumes = named(found.pod.get("volumes"))
    names = {volume.get("name") for volume in volumes if any(key in volume for key in _SHARED)}
    return [
        str(mount["mountPath"])
        for mount in named(found.container.get("volumeMounts"))
        if mount.get("name") in names and mount.get("mountPath") and not mount.get("readOnly")
    ]


def kept_volumes(found: Found) -> list[dict[str, Any]]:
    """The pod's volumes that a stage mounts as well."""
    return [
        volume
        for volume in named(found.pod.get("volumes"))
        if not (isinstance(volume.get("emptyDir"), dict) and volume["emptyDir"].get("medium"))
    ]


def of_pod(found: Found, body: str) -> str | None:
    """A variable in a script that the cluster sets for each pod."""
    names = [
        str(one.get("name")) for one in named(found.container.get("env")) if "fieldRef" in str(one.get("valueFrom"))
    ]
    return next((name for name in names if re.search(rf"\$[{{(]?{re.escape(name)}\b", body)), None)


def without_gpus(found: Found, command: dict[str, Any]) -> dict[str, Any]:
    """The container with another command, without its GPUs and its shared memory."""
    names = {volume.get("name") for volume in kept_volumes(found)}
    mounts = [mount for mount in named(found.container.get("volumeMounts")) if mount.get("name") in names]
    return {
        **{key: found.container[key] for key in _OF_CONTAINER if key in found.container},
        **command,
        "resources": {"requests": {"cpu": "4", "memory": "8Gi"}},
        "volumeMounts": mounts,
    }


def command_of(container: dict[str, Any], script: str, body: str, *, stops: bool) -> dict[str, Any] | None:
    """The shell of a container with another script; with ``stops`` it ends with the first step that fails."""
    words, rest = container.get("command") or [], container.get("args") or []
    if not isinstance(words, list) or not isinstance(rest, list):
        return None
    *start, text = [str(word) for word in (*words, *rest)] or [""]
    at = next((at for at, word in enumerate(start) if re.fullmatch(r"-\w*c", word)), 0)
    if not at or lines(text) != lines(script) or not all(word.startswith("-") for word in start[at:]):
        return None
    if stops and "e" not in start[at]:
        start[at] = f"{start[at][:-1]}ec"
    return {"command": start, "args": [body]}


def stage(found: Found, name: str, body: str) -> dict[str, Any]:
    """The Job: the container's image, environment and volumes, without its GPUs and what picks nodes with them."""
    pod = {
        "restartPolicy": "Never",
        **{key: found.pod[key] for key in _OF_POD if key in found.pod},
        "containers": [{"name": "prepare", **without_gpus(found, {"command": ["bash", "-ec"], "args": [body]})}],
        "volumes": kept_volumes(found),
    }
    given = found.top.get("metadata") or {}
    labels = {key: value for key, value in (given.get("labels") or {}).items() if key in LABELS}
    metadata = {"name": name, **({"namespace": given["namespace"]} if "namespace" in given else {})}
    if labels:
        metadata["labels"] = labels
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"backoffLimit": 2, "template": {"spec": pod}},
    }
