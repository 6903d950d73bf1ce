"""A template of an Argo workflow that does what another does before its program uses GPUs, and the order of both."""

from __future__ import annotations

import re
from typing import Any

from gpulint import regex
from gpulint.documents import Document
from gpulint.documents.yamltree import Node
from gpulint.fix import Edit
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Kind
from gpulint_fixers.edits.yaml_items import NotPlainError, before_item, is_inside, plain
from gpulint_fixers.stages import argo_calls, pods

VOLUME = "a PersistentVolumeClaim, a volumeClaimTemplate or another shared volume"
_OF_TEMPLATE = ("serviceAccountName", "securityContext", "retryStrategy")
_UNCERTAIN = ("initContainers", "sidecars", "synchronization", "memoize", "daemon", "podSpecPatch")
"""Fields of a template that its first steps may need, or that are about both stages."""
_OF_ALL = ("nodeSelector", "affinity", "podSpecPatch", "templateDefaults")
_FOR_GPUS = regex.compile("gpu|nvidia|accelerator|cuda", re.IGNORECASE)
_INPUTS = regex.compile(r"\{\{[^}]*\binputs\b")
_OF_POD = regex.compile(r"\{\{[^}]*\b(pod\.name|node\.name|retries|lastRetry|outputs|steps\.name|tasks\.name)\b")
_OWN = ("WorkflowTemplate", "ClusterWorkflowTemplate")


@dataclass(frozen=True, slots=True)
class Found:
    """A template, by its nodes and by their values, and what holds it."""

    document: Document
    root: Node
    spec: Node
    template: Node
    values: dict[str, Any]
    kind: str
    """``container`` or ``script``."""
    pod: pods.Found

    @property
    def name(self) -> str:
        """The template's name."""
        return str(self.values.get("name") or "")

    @property
    def container(self) -> dict[str, Any]:
        """What runs in it."""
        return self.pod.container


def find(document: Document, root: Node, line: int) -> Found | str:
    """The template that runs what a line of a workflow says, or why it is none that can be divided."""
    spec = root.at("spec", "workflowSpec") if root.at("kind").text == "CronWorkflow" else root.at("spec")
    templates = spec.at("templates")
    template = next((one for one in templates.elements if one.span.line <= line <= one.span.end_line), None)
    if template is None or root.origin.text != document.source.text or not is_inside(template, templates):
        return "the template that runs it was not found in the file"
    try:
        values, every = plain(template), plain(spec)
    except NotPlainError:
        return "the workflow has values that the file alone does not tell"
    kind = next((key for key in ("container", "script") if isinstance(values.get(key), dict)), "")
    if not kind or not values.get("name") or not _is_well_formed(values, values[kind], every):
        return "the template that runs it was not found in the file"
    if uncertain := next((key for key in _UNCERTAIN if values.get(key)), None):
        return f"the template has `{uncertain}`, which may be meant for both stages"
    if wide := next((key for key in _OF_ALL if _FOR_GPUS.search(str(every.get(key) or ""))), None):
        return f"`{wide}` of the workflow names GPUs for all of its pods"
    claims = [
        {"name": claim["metadata"].get("name"), "persistentVolumeClaim": {}}
        for claim in every.get("volumeClaimTemplates") or ()
        if isinstance(claim, dict) and isinstance(claim.get("metadata"), dict)
    ]
    volumes = [*(every.get("volumes") or ()), *(values.get("volumes") or ()), *claims]
    found = pods.Found(values[kind], {"volumes": volumes}, {})
    return Found(document, root, spec, template, values, kind, found)


def _is_well_formed(values: dict[str, Any], container: dict[str, Any], every: dict[str, Any]) -> bool:
    """Return whether maps and lists of maps are where Argo has them."""
    metadata = values.get("metadata") or {}
    maps = [values.get("inputs"), metadata, metadata.get("labels") if isinstance(metadata, dict) else None]
    lists = [one.get("volumes") for one in (values, every)]
    lists += [container.get("volumeMounts"), every.get("volumeClaimTemplates")]
    items = [item for one in lists if isinstance(one, list) for item in one]
    return all(isinstance(one or {}, dict) for one in (*maps, *items)) and all(
        isinstance(one or [], list) for one in lists
    )


def edits(found: Found, project: Project, script: str, body: str, *, stops: bool) -> list[Edit] | str:
    """The edits that add a template for ``body``, and its call before each call of the template that ran ``script``."""
    name = f"{found.name}-prepare"
    others = [template.at("name").text for template in found.spec.at("templates").elements]
    if name in others:
        return f"a template {name} exists already"
    if found.name.endswith("-prepare"):
        return "it is a stage before another template already"
    stage = _stage(found, name, script, body, stops=stops)
    if stage is None:
        return "its command could not be divided"
    if of_pod := _OF_POD.search(str(stage)):
        return f"it depends on `{of_pod[1]}`, which differs between pods"
    inputs = found.values.get("inputs") or {}
    needs = bool(inputs.get("artifacts")) or _INPUTS.search(str(stage)) is not None
    if needs:
        stage = {"name": name, "inputs": inputs, **{key: value for key, value in stage.items() if key != "name"}}
    if found.root.at("kind").text in _OWN and (elsewhere := _caller(project, found)):
        return f"{elsewhere} calls the template as well"
    order = argo_calls.order(found.document, found.spec, found.values, name, needs_inputs=needs)
    if isinstance(order, str):
        return order
    added = before_item(found.document, found.template, [stage, *order.templates])
    if added is None:
        return "only templates in a list with dashes (`- name:`) can be added to"
    return [added, *order.edits]


def _stage(found: Found, name: str, script: str, body: str, *, stops: bool) -> dict[str, Any] | None:
    """The template: image, environment and volumes, without GPUs and what picks nodes with them."""
    command = _command(found, script, body, stops=stops)
    if command is None:
        return None
    labels = (found.values.get("metadata") or {}).get("labels") or {}
    labels = {key: value for key, value in labels.items() if key in pods.LABELS}
    own = {volume.get("name") for volume in found.values.get("volumes") or ()}
    volumes = [volume for volume in pods.kept_volumes(found.pod) if volume.get("name") in own]
    return {
        "name": name,
        **({"metadata": {"labels": labels}} if labels else {}),
        **{key: found.values[key] for key in _OF_TEMPLATE if key in found.values},
        **({"volumes": volumes} if volumes else {}),
        found.kind: pods.without_gpus(found.pod, command),
    }


def _command(found: Found, script: str, body: str, *, stops: bool) -> dict[str, Any] | None:
    """The command for ``body`` in place of ``script``; with ``stops`` it ends with the first step that fails."""
    words, rest = found.container.get("command") or [], found.container.get("args") or []
    if not isinstance(words, list) or not isinstance(rest, list):
        return None
    if found.kind == "script":
        if not words or rest or any(re.fullmatch(r"-\w*c", str(word)) for word in words):
            return None
        return {"command": [*words, *(["-e"] if stops else [])], "source": body}
    return pods.command_of(found.container, script, body, stops=stops)


def _caller(project: Project, found: Found) -> str | None:
    """A file whose workflows call the template by its name and that of its object, or begin with it."""
    outer, name = found.root.at("metadata", "name").text, rf"['\"]?{re.escape(found.name)}(?![\w-])"
    calls = {
        b"templateRef": re.compile(rf"\btemplateRef:.{{0,200}}?\btemplate:\s*{name}", re.DOTALL),
        b"workflowTemplateRef": re.compile(rf"\bentrypoint:\s*{name}"),
    }
    for path in project.files:
        if project.kind(path) is not Kind.JOBSPEC or outer.encode() not in (data := project.data(path)):
            continue
        if any(word in data and call.search(data.decode(errors="replace")) for word, call in calls.items()):
            return path.name
    return None
