"""The fix that moves steps of a Kubernetes or SkyPilot job to a job file of their own, which requests no GPUs."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from gpulint.documents import Document
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, NewFile, Safety
from gpulint.launch.job import Job
from gpulint.launch.transfer_commands import install_tool
from gpulint.libraries.jobs import Split
from gpulint.programs.gpu_jobs import GpuJobs
from gpulint.project import Project
from gpulint.source import Span
from gpulint_fixers.stages import pods, sky
from gpulint_fixers.stages.blocks import ShellBlock, block_around
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
    rows: tuple[Split, ...] = project.models.rows("split")
    row = next((row for row in rows if job is not None and row.system == job.task.system), None)
    if job is None or row is None:
        return Declined("how steps run before jobs of this system is not known")
    if row.instead:
        return Declined(row.instead)
    block = block_around(document, finding.span.line)
    spec = _spec(document, finding.span.line)
    if block is None or spec is None:
        return Declined("only commands with lines of their own in a block of text (`|`) are moved")
    if document.path.stem.endswith("-prepare"):
        return Declined("it is a stage before another job already")
    made = plan(block.script, project.models, frozenset({block.inner(finding.span)}))
    if isinstance(made, str):
        return Declined(made)
    kept = _without_installs(project, made)
    if not made.has(block.inner(finding.span)):
        return Declined(made.reasons.get(block.inner(finding.span), "it runs in a function, or after the program"))
    return _fix(project, document, job, row, block, made, kept, spec)


def _spec(document: Document, line: int) -> dict[str, Any] | None:
    """The YAML document of a file that holds a line."""
    text = document.source.text
    if len(text) > _MAX_TEXT or _TEMPLATE.search(text):
        return None
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


def _fix(
    project: Project,
    document: Document,
    job: Job,
    row: Split,
    block: ShellBlock,
    made: Plan,
    installs: list[Piece],
    spec: dict[str, Any],
) -> Fix | Declined:
    writer = _WRITERS[row.system]
    found = writer.find(spec, block.text)
    if found is None:
        return Declined("the job's container was not found in the file")
    shared = [*writer.shared_folders(found)]
    if not shared:
        return Declined(f"what it writes is gone with the container: mount {writer.VOLUME} in both")
    if stray := next((piece for piece in made.moved if not _writes_to(piece, made, job, shared)), None):
        name = next((command.name for command in stray.commands if command.name), "it")
        return Declined(f"nothing shows that `{name}` writes to a folder that the next container sees ({shared[0]})")
    name = f"{writer.name_of(spec) or document.path.stem}-prepare".replace("_", "-").lower()
    stage = document.path.with_name(f"{document.path.stem}-prepare{document.path.suffix}")
    submit = document.path.with_name(f"{document.path.stem}-submit.sh")
    stage_file, job_file = shlex.quote(stage.name), shlex.quote(document.path.name)
    options = writer.options(spec)
    commands = [line.format(stage=stage_file, job=job_file, name=name, options=options) for line in row.submit]
    if taken := next((one.name for one in (stage, submit) if project.exists(one)), None):
        return Declined(f"{taken} exists already")
    body = text_of([*made.context, *installs], made.moved)
    text = (
        f"# What {document.path.name} does before its program uses a GPU, in a job that holds none.\n"
        f"# It assumes that {shared[0]} is the same storage in both; {submit.name} runs them in order.\n"
        f"{_dumped(writer.stage(found, name, body))}"
    )
    script = _script(f"# Runs {stage.name}, and {document.path.name} once that has ended well.", commands)
    edits = [Edit(document.path, _lines(block, piece), "") for piece in made.moved]
    note = f"{block.indent}# {stage.name} has prepared this job; {submit.name} runs both.\n"
    at = block.outer(made.moved[0].start)
    count = "the step" if len(made.moved) == 1 else f"{len(made.moved)} steps"
    return Fix(
        f"move {count} before the program to {stage.name}, a job without GPUs; run both with {submit.name}",
        Safety.UNSAFE,
        (Edit(document.path, Span(at, 1, at, 1), note), *edits),
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


class _Dumper(yaml.SafeDumper):
    """Writes strings of several lines as blocks."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _block)


def _dumped(content: dict[str, Any]) -> str:
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
