"""The fix that moves steps of a Kubernetes or SkyPilot job to a job file of their own, which requests no GPUs."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from gpulint.documents import Document
from gpulint.documents.jobspec import JobSpecDocument
from gpulint.documents.specs.lookup import Found, holds
from gpulint.documents.yamltree import Node
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, NewFile, Safety
from gpulint.launch.job import Job
from gpulint.launch.transfer_commands import install_tool
from gpulint.libraries.jobs import Split
from gpulint.programs.gpu_jobs import GpuJobs
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.source import Span
from gpulint_fixers.edits.yaml_items import dumped
from gpulint_fixers.stages import argo, pods, sky
from gpulint_fixers.stages.blocks import ShellBlock, block_around
from gpulint_fixers.stages.kinds import repeats
from gpulint_fixers.stages.pieces import Piece
from gpulint_fixers.stages.plan import Plan, plan
from gpulint_fixers.stages.writing import text_of

_MAX_TEXT = 100_000
_TEMPLATE = re.compile(r"\{\{|\$\{\{|\{%")
_WRITERS = {"kubernetes": pods, "skypilot": sky}
_CACHES = ("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "XDG_CACHE_HOME", "TORCH_HOME")


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
    block = block_around(document, finding.span.line)
    if block is None or _is_template(document, row):
        return Declined("only commands with lines of their own in a block of text (`|`) are moved")
    if document.path.stem.endswith("-prepare") and not row.within:
        return Declined("it is a stage before another job already")
    made = plan(block.script, project.models, frozenset({block.inner(finding.span)}))
    if isinstance(made, str):
        return Declined(made)
    kept = _without_installs(project, made)
    if not made.has(block.inner(finding.span)):
        return Declined(made.reasons.get(block.inner(finding.span), "it runs in a function, or after the program"))
    divided = _Divided(document, job, block, made, kept)
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
            if row.system == job.task.system and all(holds(Found(root), condition) for condition in row.requires)
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


def _without_installs(project: Project, made: Plan) -> list[Piece]:
    """Take installs out of what moves: both containers need the packages, as neither sees the other's disk."""
    installs = [
        piece for piece in made.moved if any(install_tool(project.models, command) for command in piece.commands)
    ]
    made.moved = [piece for piece in made.moved if piece not in installs]
    last = made.moved[-1].first if made.moved else 0
    return [piece for piece in installs if piece.first < last]


@dataclass(frozen=True, slots=True, eq=False)
class _Divided:
    """A job, the block with its script, and what of that runs before."""

    document: Document
    job: Job
    block: ShellBlock
    plan: Plan
    installs: list[Piece]

    @property
    def body(self) -> str:
        """The script of the stage."""
        return text_of([*self.plan.context, *self.installs], self.plan.moved)

    @property
    def steps(self) -> str:
        """How much of it moves, in words."""
        count = len(self.plan.moved)
        return "the step" if count == 1 else f"{count} steps"

    def edits(self, note: str) -> list[Edit]:
        """Edits that take the steps out of the job, and say so in a comment."""
        path, moved = self.document.path, self.plan.moved
        at = self.block.outer(moved[0].start)
        comment = Edit(path, Span(at, 1, at, 1), f"{self.block.indent}# {note}\n")
        return [comment, *(Edit(path, _lines(self.block, piece), "") for piece in moved)]

    def unseen(self, folders: Sequence[str], volume: str) -> str | None:
        """Return why the job would not see what its first steps write."""
        if not folders:
            return f"what it writes is gone with the container: mount {volume} in both"
        stray = next((one for one in self.plan.moved if not _writes_to(one, self.plan, self.job, folders)), None)
        if stray is None:
            return None
        name = next((command.name for command in stray.commands if command.name), "it")
        return f"nothing shows that `{name}` writes to a folder that the next container sees ({folders[0]})"


def _within(project: Project, divided: _Divided, root: Node, line: int) -> Fix | Declined:
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


def _beside(project: Project, divided: _Divided, row: Split) -> Fix | Declined:
    """The stage as a job file of its own, and the script that runs both."""
    document, writer = divided.document, _WRITERS[row.system]
    spec = _spec(document, divided.block.first)
    found = writer.find(spec, divided.block.text) if spec is not None else None
    if spec is None or found is None:
        return Declined("the job's container was not found in the file")
    if field := writer.uncertain(found):
        return Declined(f"the pod has `{field}`, which may prepare what the step needs")
    shared = [*writer.shared_folders(found)]
    if reason := divided.unseen(shared, writer.VOLUME):
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


def _lines(block: ShellBlock, piece: Piece) -> Span:
    return Span(block.outer(piece.start), 1, block.outer(piece.last) + 1, 1)


def _writes_to(piece: Piece, made: Plan, job: Job, folders: Sequence[str]) -> bool:
    """Return whether a step names a shared folder, works in one, or fills a cache that is in one."""
    words = [word.text for command in piece.commands for word in command.argv[1:]]
    words += [redirect.target.raw for command in piece.commands for redirect in command.redirects if redirect.target]
    if any(_is_in(path, folders) for word in words for path in _paths(word)):
        return True
    entered = [
        command.argv[1].text
        for other in made.context
        for command in other.commands
        if command.name == "cd" and len(command.argv) > 1
    ]
    where = entered[-1] if entered else job.task.working_dir or ""
    if _is_in(where, folders) and not any(path for word in words for path in _paths(word)):
        return True
    env = {item.name: item.value or "" for item in job.task.env}
    env |= {item.name: item.value.raw for other in made.context for item in other.assignments if item.value}
    fetches = any(command.name in ("hf", "huggingface-cli") for command in piece.commands)
    return fetches and any(_is_in(env.get(name, ""), folders) for name in _CACHES)


def _paths(word: str) -> Iterator[str]:
    """Absolute paths in a word: ``/data``, ``--out=/data``."""
    path = word.partition("=")[2] if word.startswith("-") and "=" in word else word
    if path.startswith("/"):
        yield path


def _is_in(path: str, folders: Sequence[str]) -> bool:
    path = posixpath.normpath(path.strip("\"'")) if path else ""
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)
