"""The fix that moves steps of a Kubernetes or SkyPilot job to a job file of their own, which requests no GPUs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

import yaml

from gpulint.documents import Document
from gpulint.documents.jobspec import JobSpecDocument
from gpulint.documents.specs.lookup import Found, holds
from gpulint.documents.yamltree import Node
from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, NewFile, Safety
from gpulint.launch.job import Job
from gpulint.libraries.jobs import Split
from gpulint.programs.gpu_jobs import GpuJobs
from gpulint.project import Project
from gpulint_fixers.edits.yaml_items import dumped
from gpulint_fixers.stages import argo, azureml, jobset, pods, sky, tekton
from gpulint_fixers.stages.divided import NO_BLOCK, Divided, divide
from gpulint_fixers.stages.kinds import repeats
from gpulint_fixers.stages.parts import put_before, read

_MAX_TEXT = 100_000
_TEMPLATE = re.compile(r"\{\{|\$\{\{|\{%")
_NO_CONTAINER = "the job's container was not found in the file"
_WRITERS = {"kubernetes": pods, "skypilot": sky}


def split_spec(finding: Finding, project: Project, document: Document) -> Fix | Declined:
    """The job file with the command that a finding is about, and with all else of its script that can move."""
    job = next(
        (held.job for held in project.fact(GpuJobs).commands_of(document) if held.command.span == finding.span), None
    )
    root = _root(document, finding.span.line)
    row = _row(project, job, root) if job is not None and root is not None else None
    if job is None or root is None or row is None:
        return Declined("how steps run before jobs of this system is not known")
    if row.instead:
        return Declined(row.instead)
    if row.within == "azureml" and row.parts is not None:
        return azureml.split(project, document, root, row.parts, finding.span)
    if _is_template(document, row):
        return Declined(NO_BLOCK)
    if row.within == "tekton" and row.parts is not None:
        return tekton.split(project, document, root, row.parts, finding.span)
    if document.path.stem.endswith("-prepare") and not row.within:
        return Declined("it is a stage before another job already")
    divided = divide(project, document, job.task, finding.span)
    if isinstance(divided, str):
        return Declined(divided)
    if row.parts is not None:
        return _before(divided, row, root, finding.span.line)
    return _within(project, divided, root, finding.span.line) if row.within else _beside(project, divided, row)


def _root(document: Document, line: int) -> Node | None:
    """The YAML document of a file that holds a line."""
    roots = document.roots if isinstance(document, JobSpecDocument) else ()
    return next((root for root in roots if root.span.line <= line <= root.span.end_line), None)


def _row(project: Project, job: Job, root: Node) -> Split | None:
    rows: tuple[Split, ...] = project.models.rows("split")
    return next(
        (
            row
            for row in rows
            if row.system == job.task.system
            and all(holds(Found(root), condition) for condition in row.requires)
            and not any(holds(Found(root), condition) for condition in row.unless)
        ),
        None,
    )


def _is_template(document: Document, row: Split) -> bool:
    """Return whether a file is very long, or has expressions that are filled in before the system sees it."""
    text = document.source.text
    if row.expressions:
        text = re.sub(rf"(?<!\$)\{{\{{\s*(?:{'|'.join(map(re.escape, row.expressions))})[^{{}}\n]*\}}\}}", "", text)
    return len(text) > _MAX_TEXT or _TEMPLATE.search(text) is not None


def _spec(document: Document, line: int) -> dict[str, Any] | None:
    """The YAML document of a file that holds a line."""
    text = document.source.text
    try:
        for node in yaml.compose_all(text, yaml.SafeLoader):
            if node.start_mark.line < line <= node.end_mark.line + 1:
                found = yaml.safe_load(text[node.start_mark.index : node.end_mark.index])
                return found if isinstance(found, dict) else None
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    return None


def _within(project: Project, divided: Divided, root: Node, line: int) -> Fix | Declined:
    """The stage as a part of the same file, which says itself in which order its parts run."""
    found = argo.find(divided.document, root, line)
    if isinstance(found, str):
        return Declined(found)
    if reason := divided.unseen(pods.shared_folders(found.pod), argo.VOLUME):
        return Declined(reason)
    stops = not any(repeats(piece.text) for piece in divided.plan.moved)
    edits = argo.edits(found, project, divided.block.text, divided.body, stops=stops)
    if isinstance(edits, str):
        return Declined(edits)
    name = f"{found.name}-prepare"
    return Fix(
        f"move {divided.steps} before the program to {name}, a template without GPUs that runs first",
        Safety.UNSAFE,
        (*edits, *divided.edits(f"{name} has run before, without GPUs.")),
    )


def _before(divided: Divided, row: Split, root: Node, line: int) -> Fix | Declined:
    """The stage as a part of the file that another part waits for, or at the end of one that it waits for already."""
    assert row.parts is not None
    parts = read(divided.document, root, row.parts)
    part = parts.at(line)
    found = (
        jobset.find(parts, part, divided.block.text)
        if part is not None
        else "the job's container was not found in the file"
    )
    if isinstance(found, str) or part is None:
        return Declined(str(found))
    if reason := divided.unseen(pods.shared_folders(found), argo.VOLUME) or _differs(found, divided):
        return Declined(reason)
    for name, earlier in ((one.name, one) for one in parts.before(part)):
        if (edit := jobset.added_to(parts, earlier, found, divided.body)) is not None:
            return Fix(
                f"move {divided.steps} before the program to the end of {name}, which has no GPUs and runs before",
                Safety.UNSAFE,
                (edit, *divided.edits(f"{name} has run before, without GPUs.")),
            )
    name = parts.stage_of(part)
    made = parts.refusal(part) or put_before(parts, part, jobset.stage(found, divided.body))
    if isinstance(made, str):
        return Declined(made)
    return Fix(
        f"move {divided.steps} before the program to {name}, {row.parts.called} without GPUs that runs first",
        Safety.UNSAFE,
        (*made, *divided.edits(f"{name} has run before, without GPUs.")),
    )


def _differs(found: pods.Found, divided: Divided) -> str | None:
    name = pods.of_pod(found, divided.body)
    return f"it depends on `{name}`, which differs between pods" if name is not None else None


def _beside(project: Project, divided: Divided, row: Split) -> Fix | Declined:
    """The stage as a job file of its own, and the script that runs both."""
    document, writer = divided.document, _WRITERS[row.system]
    spec = _spec(document, divided.block.first)
    found = writer.find(spec, divided.block.text) if spec is not None else None
    if spec is None or found is None:
        return Declined(_NO_CONTAINER)
    if field := writer.uncertain(found):
        return Declined(f"the pod has `{field}`, which may prepare what the step needs")
    shared = [*writer.shared_folders(found)]
    reason = divided.unseen(shared, writer.VOLUME)
    if reason is None and isinstance(found, pods.Found):
        reason = _differs(found, divided)
    if reason is not None:
        return Declined(reason)
    name = f"{writer.name_of(spec) or document.path.stem}-prepare".replace("_", "-").lower()
    stage = document.path.with_name(f"{document.path.stem}-prepare{document.path.suffix}")
    submit = document.path.with_name(f"{document.path.stem}-submit.sh")
    stage_file, job_file = shlex.quote(stage.name), shlex.quote(document.path.name)
    words = {"stage": stage_file, "job": job_file, "name": name}
    words |= {"options": writer.options(spec), "verb": writer.verb(spec)}
    commands = [line.format_map(words) for line in row.submit]
    if taken := next((one.name for one in (stage, submit) if project.exists(one)), None):
        return Declined(f"{taken} exists already")
    text = (
        f"# What {document.path.name} does before its program uses a GPU, in a job that holds none.\n"
        f"# It assumes that {shared[0]} is the same storage in both; {submit.name} runs them in order.\n"
        f"{dumped(writer.stage(found, name, divided.body))}"
    )
    script = _script(f"# Runs {stage.name}, and {document.path.name} once that has ended well.", commands)
    return Fix(
        f"move {divided.steps} before the program to {stage.name}, a job without GPUs; run both with {submit.name}",
        Safety.UNSAFE,
        tuple(divided.edits(f"{stage.name} has prepared this job; {submit.name} runs both.")),
        (NewFile(stage, text), NewFile(submit, script)),
    )


def _script(comment: str, commands: Sequence[str]) -> str:
    """A script that runs commands in its own folder, and stops at the first that fails."""
    head = ["#!/bin/bash", comment, "set -euo pipefail", 'cd "$(dirname "${BASH_SOURCE[0]}")"']
    return "\n".join([*head, *commands, ""])
