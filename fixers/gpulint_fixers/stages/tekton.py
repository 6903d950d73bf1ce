"""The first steps of a task of Tekton in a task of their own, which shares a workspace: each task runs in one pod."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gpulint import regex
from gpulint.documents import Document
from gpulint.documents.tasks import Task
from gpulint.documents.yamltree import Node, YamlError, parse
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.libraries import jobs
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Kind
from gpulint.source import Fragment, Span
from gpulint_fixers.edits.yaml_items import NotPlainError, after_item, is_inside, named, plain, without_items
from gpulint_fixers.stages import pods
from gpulint_fixers.stages.divided import Divided, divide, writes_to
from gpulint_fixers.stages.kinds import Role, repeats, role
from gpulint_fixers.stages.parts import Part, Parts, put_before, read

_VOLUME = "a workspace of the pipeline that is a volume"
_OF_PART = ("when", "retries", "params", "workspaces")
_OF_TASK = ("params", "workspaces", "stepTemplate")
_OF_STEP = ("image", "imagePullPolicy", "workingDir", "env", "envFrom", "securityContext")
_UNCERTAIN = ("matrix", "onError", "resources")
_UNKNOWN = frozenset({"ref", "onError", "results", "when"})
_FOR_GPUS = regex.compile("gpu|nvidia|accelerator|cuda", re.IGNORECASE)
_OF_POD = regex.compile(r"\$\((?:results|steps?|outputs|context\.task(?:Run)?)\.")
_WORKSPACE = regex.compile(r"\$\(workspaces\.([\w-]+)\.")
_OWN = ("emptyDir", "configMap", "secret", "projected")
"""What a workspace may be that no other task sees, or that is not written."""
_STOPS = regex.compile(r"^[ \t]*set[ \t]+-\w*e", re.MULTILINE)


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """A task with GPUs: the part of a pipeline that runs it, its specification, and its steps."""

    parts: Parts
    part: Part
    spec: Node
    values: dict[str, Any]
    of_part: dict[str, Any]
    first: list[Node]
    """The steps before those with GPUs, which all hold them."""
    main: Node
    """The first step with GPUs."""
    folders: tuple[str, ...]


def split(project: Project, document: Document, root: Node, row: jobs.Parts, span: Span) -> Fix | Declined:
    """Move the steps before the one with GPUs, and what can move of that one, to a task that runs first."""
    place = _place(project, document, root, row, span.line)
    if isinstance(place, str):
        return Declined(place)
    if span.line > place.main.span.end_line:
        return Declined("it runs after the program")
    if not place.folders:
        return Declined(f"what it writes is gone with the pod: share {_VOLUME} with both tasks")
    if reason := next((why for step in place.first if (why := _stays(project, document, place, step))), None):
        return Declined(reason)
    lines = _divided(project, document, place, span)
    if isinstance(lines, str):
        return Declined(lines)
    steps = [plain(step) for step in place.first]
    if lines is not None:
        step = _lines(place, lines)
        if step is None:
            return Declined("its command could not be divided")
        steps.append(step)
    if found := _OF_POD.search(str(steps)):
        return Declined(f"it uses `{found[0][2:-1]}`, which belongs to the pod of a task")
    return _fix(document, place, steps, lines)


def _divided(project: Project, document: Document, place: _Place, span: Span) -> Divided | str | None:
    """Return what moves of the step with GPUs; None if nothing does, and nothing has to."""
    needs = span.line >= place.main.span.line
    task = next(task for task in _tasks(document, place.main) if _holds(task))
    command = next((command for script in task.scripts for command in script.commands), None)
    if not needs and command is None:
        return None
    made = divide(project, document, task, span if needs or command is None else command.span, needs=needs)
    reason = made if isinstance(made, str) else made.unseen(place.folders, _VOLUME)
    return made if reason is None else reason if needs else None


def _fix(document: Document, place: _Place, steps: list[dict[str, Any]], lines: Divided | None) -> Fix | Declined:
    parts, part = place.parts, place.part
    count = len(place.first) + (len(lines.plan.moved) if lines is not None else 0)
    what = "the step" if count == 1 else f"{count} steps"
    name, made = "", list[Edit]()
    for earlier in parts.before(part):
        if (edit := _added_to(parts, earlier, place, steps)) is not None:
            name, made = earlier.name, [edit]
            told = f"move {what} before the program to the end of {name}, which has no GPUs and runs before"
            break
    if not made:
        name = parts.stage_of(part)
        added = parts.refusal(part) or put_before(parts, part, _stage(place, steps))
        if isinstance(added, str):
            return Declined(added)
        made = added
        told = f"move {what} before the program to {name}, a task without GPUs that runs first"
    if place.first:
        removed = without_items(document, place.first, place.main)
        if removed is None:
            return Declined("only steps in a list with dashes (`- name:`) can be moved")
        made = [*made, removed]
    if lines is not None:
        made = [*made, *lines.edits(f"{name} has run before, without GPUs.")]
    return Fix(f"{told}; the nodes of both must see the workspace", Safety.UNSAFE, tuple(made))


def _place(project: Project, document: Document, root: Node, row: jobs.Parts, line: int) -> _Place | str:
    kind = root.at("kind").text
    if kind == "TaskRun":
        return "a TaskRun runs in one pod: make it a PipelineRun of two tasks, and share a workspace"
    if kind in ("Pipeline", "PipelineRun"):
        parts = read(document, root, row)
        calls = [(parts, part)] if (part := parts.at(line)) is not None else []
        spec = calls[0][1].node.at("taskSpec") if calls else root
        if not calls:
            return "a task at the end of a pipeline (`finally`) waits for no other"
    else:
        spec, name = root.at("spec"), root.at("metadata", "name").text
        found = _calls(project, document, name, row)
        if isinstance(found, str):
            return found
        calls = found
    parts, part = calls[0]
    steps = spec.at("steps").elements
    at = next((at for at, step in enumerate(steps) if any(_holds(task) for task in _tasks(document, step))), None)
    if at is None or not all(is_inside(step, spec) for step in steps):
        return "the step with the program was not found in the file"
    try:
        values, of_part, every = plain(spec), plain(part.node), plain(parts.root.at("spec"))
    except NotPlainError:
        return "the pipeline has values that the file alone does not tell"
    if not all(isinstance(one, dict) for one in (values, of_part, every)):
        return "the step with the program was not found in the file"
    if reason := _refusal(part, values, of_part, every):
        return reason
    folders = tuple(_folders(parts, values, of_part, steps[at]))
    return _Place(parts, part, spec, values, of_part, steps[:at], steps[at], folders)


def _refusal(part: Part, values: dict[str, Any], of_part: dict[str, Any], every: dict[str, Any]) -> str | None:
    """Return why a task cannot be divided."""
    if uncertain := next((key for key in _UNCERTAIN if of_part.get(key)), None):
        return f"the task has `{uncertain}`, which may be meant for both"
    if values.get("sidecars"):
        return "the task has `sidecars`, which may be meant for both"
    wide = next((key for key in ("podTemplate", "taskRunTemplate") if _FOR_GPUS.search(str(every.get(key) or ""))), "")
    if wide or _FOR_GPUS.search(str(values.get("stepTemplate") or "")):
        return f"`{wide or 'stepTemplate'}` names GPUs for all pods or steps"
    of_run = named(every.get("taskRunSpecs"))
    account = any("erviceAccountName" in str(one) for one in of_run if one.get("pipelineTaskName") == part.name)
    return "`taskRunSpecs` gives the task an account of its own, which the new one needs as well" if account else None


def _calls(project: Project, document: Document, name: str, row: jobs.Parts) -> list[tuple[Parts, Part]] | str:
    """The only task of a pipeline of the tree that runs a task by its name."""
    found = list[tuple[Parts, Part]]()
    for path in project.files:
        if project.kind(path) is not Kind.JOBSPEC or name.encode() not in (data := project.data(path)):
            continue
        if b"tekton.dev" not in data or b"taskRef" not in data:
            continue
        other = document if path == document.path else project.document(path)
        for root in _roots(other) if other is not None else ():
            if root.at("spec", "taskRef", "name").text == name:
                return f"the TaskRun in {path.name} runs the task alone, in one pod"
            parts = read(other, root, row) if other is not None else None
            items = parts.items if parts is not None else ()
            found += [(parts, part) for part in items if part.node.at("taskRef", "name").text == name and parts]
            if any(last.at("taskRef", "name").text == name for last in root.at("spec", "finally").elements):
                return "a task at the end of a pipeline (`finally`) waits for no other"
    if len(found) != 1:
        return f"{'several tasks of pipelines run' if found else 'no pipeline of the tree runs'} the task {name}"
    return found


def _roots(document: Document) -> list[Node]:
    """The YAML documents of a file, whether they start programs or not."""
    try:
        return [root for root in parse(Fragment(document.source.text, document.source)) if root.kind == "map"]
    except YamlError:
        return []


def _tasks(document: Document, step: Node) -> list[Task]:
    inside = (step.span.line, step.span.end_line)
    return [task for task in document.tasks if inside[0] <= task.span.line and task.span.end_line <= inside[1]]


def _holds(task: Task) -> bool:
    return task.role == "main" and task.resources.gpus is not None and task.resources.gpus.value != 0


def _folders(parts: Parts, values: dict[str, Any], of_part: dict[str, Any], step: Node) -> Iterator[str]:
    """Yield where volumes that both tasks see are mounted for writing."""
    bound = named(plain(parts.root.at("spec", "workspaces")) if parts.root.at("kind").text == "PipelineRun" else [])
    own = {one.get("name") for one in bound if any(kind in one for kind in _OWN)}
    declared = {one.get("name"): one for one in named(values.get("workspaces"))}
    passed = named(of_part.get("workspaces")) or (bound if not declared else [])
    for one in passed:
        name = one.get("name")
        given = declared.get(name, {})
        if str(one.get("workspace", name)) in own or given.get("readOnly"):
            continue
        yield f"$(workspaces.{name}.path)"
        yield str(given.get("mountPath") or f"/workspace/{name}")
    yield from pods.shared_folders(pods.Found(plain(step), {"volumes": values.get("volumes")}, {}))


def _stays(project: Project, document: Document, place: _Place, step: Node) -> str | None:
    """Return why the task with GPUs would not see all that a step before it does."""
    name = step.at("name").text or "a step"
    if unknown := next((key for key in step.fields if key in _UNKNOWN), None):
        return f"{name}, which runs before, has `{unknown}`"
    tasks = _tasks(document, step)
    scripts = [script for task in tasks for script in task.scripts]
    if not scripts or any(script.problems for script in scripts):
        return f"what {name} does, which runs before, could not be read"
    if sum(command.name in ("cd", "pushd") for script in scripts for command in script.commands) > 1:
        return f"{name}, which runs before, works in several folders"
    for task, script in ((one, script) for one in tasks for script in one.scripts):
        for command in script.commands:
            if role(command, project.models, frozenset()) in (Role.SHOWS, Role.CONTEXT) and not command.redirects:
                continue
            if not writes_to([command], [script], task, place.folders):
                return f"nothing shows that `{command.name}` of {name} writes to a workspace that both tasks see"
    return None


def _lines(place: _Place, lines: Divided) -> dict[str, Any] | None:
    """A step that does what is moved out of the one with GPUs."""
    step = plain(place.main)
    kept = {"name": "prepare", **{key: step[key] for key in _OF_STEP if key in step}}
    volumes = {one.get("name") for one in pods.kept_volumes(pods.Found({}, place.values, {}))}
    mounts = [one for one in named(step.get("volumeMounts")) if one.get("name") in volumes]
    kept |= {"volumeMounts": mounts} if mounts else {}
    stops = not any(repeats(piece.text) for piece in lines.plan.moved)
    script = step.get("script")
    if isinstance(script, str):
        first = script.split("\n", 1)[0]
        opens = f"{first}\n" if first.startswith("#!") else ""
        opens += "set -e\n" if opens and stops and not _STOPS.search(lines.body) else ""
        return {**kept, "script": f"{opens}{lines.body}"}
    command = pods.command_of(step, lines.block.text, lines.body, stops=stops)
    return None if command is None else {**kept, **command}


def _stage(place: _Place, steps: list[dict[str, Any]]) -> dict[str, Any]:
    """The task, without its name and what it waits for."""
    of_task = {key: place.values[key] for key in _OF_TASK if place.values.get(key)}
    mounted = {mount.get("name") for step in steps for mount in named(step.get("volumeMounts"))}
    volumes = [one for one in named(place.values.get("volumes")) if one.get("name") in mounted]
    return {
        **{key: place.of_part[key] for key in _OF_PART if place.of_part.get(key)},
        "taskSpec": {**of_task, **({"volumes": volumes} if volumes else {}), "steps": steps},
    }


def _added_to(parts: Parts, earlier: Part, place: _Place, steps: list[dict[str, Any]]) -> Edit | None:
    """The steps at the end of a task that has ended before, if that has the same workspaces and needs no more."""
    try:
        values = plain(earlier.node)
    except NotPlainError:
        return None
    spec = values.get("taskSpec")
    conditions = any(one.get(key) for one in (values, place.of_part) for key in ("when", "matrix", "onError"))
    if not isinstance(spec, dict) or not named(spec.get("steps")) or conditions or "$(params." in str(steps):
        return None
    if any(step.get("volumeMounts") for step in steps) or spec.get("stepTemplate") or place.values.get("stepTemplate"):
        return None
    if {step.get("name") for step in named(spec["steps"])} & {step.get("name") for step in steps}:
        return None
    used = set(_WORKSPACE.findall(str(steps)))
    pairs = [({one.get("name"): one for one in named(of.get("workspaces"))}) for of in (values, place.of_part)]
    pairs += [({one.get("name"): one for one in named(of.get("workspaces"))}) for of in (spec, place.values)]
    if not used or any(pairs[0].get(name) != pairs[1].get(name) for name in used):
        return None
    if any(pairs[2].get(name) != pairs[3].get(name) for name in used):
        return None
    last = earlier.node.at("taskSpec", "steps").elements[-1]
    return after_item(parts.document, last, steps)
