"""The static findings of the program that a recording ran: gpulint reads its command, its files and what they
import."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint.escaping import printable
from gpulint.impact import Impact
from gpulint.launch.job_index import JobIndex

if TYPE_CHECKING:
    from gpulint.finding import Finding
    from gpulint.project import Project

MAX_MODULES = 400
_NAME = ".gpulint-command.sh"
"""The command is read as a script of this name, which exists in memory alone."""


@dataclass(frozen=True, slots=True)
class StaticFinding:
    """A finding as reports show it. ``path`` is relative to the job's folder; empty for the command itself."""

    code: str
    name: str
    severity: str
    path: str
    line: int
    message: str
    help: str
    url: str
    cell: int | None = None
    impact: Impact = field(default_factory=Impact)
    """What it is estimated to cost."""

    def as_json(self) -> dict[str, Any]:
        """The finding as reports have it; its impact is the scan's to tell."""
        return {name: value for name, value in asdict(self).items() if name != "impact"}

    @property
    def place(self) -> str:
        """``train.py:140``, in notebooks with the cell."""
        cell = f"cell {self.cell}:" if self.cell is not None else ""
        return f"{self.path}:{cell}{self.line}" if self.path else "the command"

    def __str__(self) -> str:
        place = f"{self.place}: " if self.path else ""
        return f"{place}{self.message} ({self.code})"


@dataclass(frozen=True, slots=True)
class Program:
    """What a command starts. ``note`` says why nothing could be read."""

    files: tuple[str, ...] = ()
    findings: tuple[StaticFinding, ...] = ()
    note: str = ""


def read_program(command: Sequence[str], cwd: str, gpus: int) -> Program:
    """Scan what ``command`` starts in the folder ``cwd`` on ``gpus`` GPUs, by the settings that hold there.

    Nothing is run. Raises nothing: what cannot be read is a note.
    """
    from gpulint.config import ConfigError

    if not command:
        return Program(note="the recording has no command, so no program was searched for findings")
    folder = Path(cwd)
    if not folder.is_dir():
        return Program(note=printable(f"{cwd} is not here, so its program was not searched for findings"))
    try:
        return _read(command, folder, gpus)
    except ConfigError as error:
        return Program(note=printable(f"the program was not searched for findings: {error}"))


def _read(command: Sequence[str], folder: Path, gpus: int) -> Program:
    from gpulint import engine, plugins
    from gpulint.config import load
    from gpulint.discover import project_root
    from gpulint.project import Project
    from gpulint.selection import select

    config, root, script = load(folder), project_root([folder]), folder / _NAME
    asked = f"#SBATCH --gres=gpu:{gpus}\n" if gpus else ""
    text = f"#!/bin/bash\n{asked}{shlex.join(command)}\n".encode("utf-8", "surrogateescape")
    first = Project(root, [script], config)
    first.provide(script, text)
    files = _files(first, script)
    if len(files) < 2:
        return Program(note=printable(f"'{shlex.join(command)}' starts no file that gpulint reads"))
    project = Project(root, files, config)
    project.provide(script, text)
    rules = select(plugins.load().rules, config.select, config.extend_select, config.ignore)
    report = engine.run(project, files, rules)
    findings = tuple(_plain(result.finding, script, folder) for result in report.results)
    return Program(tuple(os.path.relpath(path, folder) for path in files if path != script), findings)


def _files(project: Project, script: Path) -> list[Path]:
    """The command, the scripts and programs that it starts, and the modules of the tree that these import."""
    found: dict[Path, None] = {script: None}
    for job in project.fact(JobIndex).jobs():
        found |= dict.fromkeys(document.path for document in job.scripts)
        found |= dict.fromkeys(job.programs)
    todo = [path for path in found if path.suffix in (".py", ".ipynb")]
    while todo and len(found) < MAX_MODULES:
        for path in sorted(project.imported(todo.pop(0))):
            if path not in found:
                found[path] = None
                todo.append(path)
    return sorted(found)


def _plain(finding: Finding, script: Path, folder: Path) -> StaticFinding:
    rule, span = finding.rule, finding.span
    path = "" if finding.path == script else os.path.relpath(finding.path, folder)
    message, help = (printable(_without_script(text), keep="\n") for text in (finding.message, finding.help))
    return StaticFinding(
        rule.code, rule.name, str(finding.severity), printable(path), span.line, message, help, rule.url, span.cell,
        finding.impact,
    )  # fmt: skip


def _without_script(text: str) -> str:
    """Messages name the script, which the reader has never seen; its second line is the number of GPUs."""
    for number, meaning in ((2, "on this machine"), (3, "by the command")):
        text = text.replace(f"at {_NAME}:{number}", meaning)
    return text.replace(_NAME, "the command")
