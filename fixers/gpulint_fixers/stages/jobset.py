"""A Job of a JobSet that does what another one does before its program uses GPUs."""

from __future__ import annotations

from typing import Any

from gpulint import regex
from gpulint.fix import Edit
from gpulint_fixers.edits.yaml_items import NotPlainError, named, plain, with_lines
from gpulint_fixers.stages import pods
from gpulint_fixers.stages.parts import Part, Parts

_OTHERS = regex.compile(r"job-global-index|global-replicas")
_ENDS = regex.compile(r"(?:^|[\n;&|])\s*(?:exec|exit|cd|pushd|trap|set)\b|<<|&\s*$")
"""What a script must not hold for lines to be added at its end."""


def find(parts: Parts, part: Part, script: str) -> pods.Found | str:
    """The container that runs a script, or why nothing can run before its Job."""
    spec = parts.root.at("spec")
    if spec.at("startupPolicy", "startupPolicyOrder").text == "InOrder":
        return "`startupPolicy: InOrder` starts a Job when the one before it is ready, not at its end: use `dependsOn`"
    policy = spec.at("successPolicy")
    if policy.at("operator").text == "Any" and not policy.at("targetReplicatedJobs").elements:
        return "the set has succeeded when any of its Jobs has (`successPolicy`)"
    if any("exclusive-topology" in key.text for key, _ in parts.root.at("metadata", "annotations").pairs()):
        return "each of its Jobs gets a group of nodes for itself (`exclusive-topology`), the new one as well"
    if other := _OTHERS.search(parts.root.written):
        return f"`{other[0]}` counts the Jobs of the set, which another one would change"
    return _container(parts, part, script) or "the job's container was not found in the file"


def _container(parts: Parts, part: Part, script: str) -> pods.Found | None:
    """The only container of a Job that runs a script, with the volumes that the set makes."""
    try:
        values = plain(part.node)
        policies = plain(parts.root.at("spec", "volumeClaimPolicies")) or []
    except NotPlainError:
        return None
    found = pods.find(values, script)
    if found is None:
        return None
    claims = [
        {"name": str(claim["metadata"].get("name")), "persistentVolumeClaim": {}}
        for policy in named(policies)
        for claim in named(policy.get("templates"))
        if isinstance(claim.get("metadata"), dict)
    ]
    pod = {**found.pod, "volumes": [*named(found.pod.get("volumes")), *claims]}
    return pods.Found(found.container, pod, {"": [claim["name"] for claim in claims]})


def stage(found: pods.Found, body: str) -> dict[str, Any]:
    """The Job, without its name."""
    job = pods.stage(found, "", body)["spec"]
    pod = job["template"]["spec"]
    pod["volumes"] = [volume for volume in pod["volumes"] if volume.get("name") not in found.top[""]]
    if not pod["volumes"]:
        del pod["volumes"]
    return {"replicas": 1, "template": {"spec": job}}


def added_to(parts: Parts, earlier: Part, found: pods.Found, body: str) -> Edit | None:
    """The same lines at the end of what a Job runs that has ended before, if that sees and has the same."""
    for node in earlier.node.walk():
        if node.style == "|" and (other := _container(parts, earlier, node.value)) is not None:
            if not _is_alike(found, other) or _ENDS.search(node.value):
                return None
            return with_lines(parts.document, node, f"set -e\n{body}")
    return None


def _is_alike(one: pods.Found, other: pods.Found) -> bool:
    keys = ("image", "env", "envFrom", "workingDir", "securityContext")
    same = all(one.container.get(key) == other.container.get(key) for key in keys)
    return same and _mounted(one) == _mounted(other)


def _mounted(found: pods.Found) -> dict[str, Any]:
    """The shared volumes by the folders that they are mounted in."""
    volumes = {volume.get("name"): volume for volume in named(found.pod.get("volumes"))}
    folders = pods.shared_folders(found)
    return {
        str(mount["mountPath"]): {**volumes[mount.get("name")], "name": ""} | {"subPath": mount.get("subPath")}
        for mount in named(found.container.get("volumeMounts"))
        if str(mount.get("mountPath")) in folders
    }
