"""A SkyPilot task that does what another does before its program uses GPUs."""

from __future__ import annotations

from typing import Any

VOLUME = "a bucket (`file_mounts` with `mode: MOUNT`) or a volume (`volumes`)"
_KEPT = ("workdir", "file_mounts", "volumes", "envs", "secrets")
_PLACES = ("infra", "cloud", "region", "zone", "image_id", "labels")
"""What of ``resources`` says where a machine is, and not what it has."""


def find(spec: dict[str, Any], script: str) -> dict[str, Any] | None:
    """The task, if ``script`` is what it runs or how it is set up."""
    lines = [line.strip() for line in script.splitlines() if line.strip()]
    resources = spec.get("resources")
    if isinstance(resources, dict) and any(key in resources for key in ("any_of", "ordered")):
        return None
    for key in ("run", "setup"):
        text = spec.get(key)
        if isinstance(text, str) and [line.strip() for line in text.splitlines() if line.strip()] == lines:
            return {**spec, "": key}
    return None


def uncertain(found: dict[str, Any]) -> str:
    """A task has nothing that its steps may need beside folders, variables and the set-up."""
    return ""


def name_of(spec: dict[str, Any]) -> str:
    """The task's name."""
    return str(spec.get("name") or "")


def options(spec: dict[str, Any]) -> str:
    """A task needs none."""
    return ""


def verb(spec: dict[str, Any]) -> str:
    """Tasks are launched in one way."""
    return ""


def shared_folders(found: dict[str, Any]) -> list[str]:
    """Return where buckets and volumes that another machine sees as well are mounted for writing."""
    mounts = found.get("file_mounts") or {}
    buckets = [
        str(path)
        for path, mount in mounts.items()
        if isinstance(mount, dict) and str(mount.get("mode", "MOUNT")).upper() in ("MOUNT", "MOUNT_CACHED")
    ]
    return [*buckets, *map(str, found.get("volumes") or {})]


def stage(found: dict[str, Any], name: str, body: str) -> dict[str, Any]:
    """The task: folders and variables of the job, on a machine without GPUs."""
    resources = found.get("resources") or {}
    task: dict[str, Any] = {
        "name": name,
        "resources": {**{key: resources[key] for key in _PLACES if key in resources}, "cpus": "4+"},
        **{key: found[key] for key in _KEPT if key in found},
    }
    if found[""] == "run" and "setup" in found:
        task["setup"] = found["setup"]
    return {**task, "run": body}
