"""Commands that run tasks which a file of the tree describes: ``make train``, ``dvc repro``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.launch.path_resolution import PathResolver
from gpulint.launch.program_launches import is_uncalled
from gpulint.launch.transfer_commands import words_of
from gpulint.launch.working_directory import working_dir
from gpulint.libraries.names import matches

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.documents.shell import Command, Script
    from gpulint.documents.tasks import Task
    from gpulint.libraries.commands import TaskRunner
    from gpulint.project import Project

MAX_TASKS = 20
"""Tasks of one command, at most."""


def tasks(
    project: Project, locator: PathResolver, document: Document, script: Script, start: Path | None
) -> Iterator[tuple[Document, Task]]:
    """The tasks that the commands of a script run, with the documents that describe them."""
    rows: tuple[TaskRunner, ...] = project.models.rows("task-runner")
    if not any(word in script.fragment.text for row in rows for word in row.words):
        return
    by_name: dict[Path, dict[str, list[Task]]] = {}
    for command in script.walk():
        words = words_of(command)
        row = next((row for row in rows if words and matches(row.programs, words[:1])), None)
        if row is None or is_uncalled(command):
            continue
        asked = _asked(row, words[1:])
        found = _document(project, locator, document, command, row, words, start) if asked is not None else None
        if found is None or asked is None or found is document:
            continue
        known = by_name.get(found.path)
        if known is None:
            known = by_name[found.path] = {}
            for task in found.tasks:
                known.setdefault(task.name, []).append(task)
        named = [task for name in asked[:MAX_TASKS] for task in known.get(name, ())]
        yield from ((found, task) for task in (named or ([] if asked else _default(row, found)))[:MAX_TASKS])


def _asked(row: TaskRunner, arguments: tuple[str, ...]) -> list[str] | None:
    """Names of the tasks that a command asks for; None if it runs none."""
    if {"-n", "--dry-run", "--dry"} & set(arguments):
        return None
    valued = [at + 1 for at, word in enumerate(arguments) if word in (*row.folder, "-f", "-j")]
    told = [word for at, word in enumerate(arguments) if at not in valued and not word.startswith("-")]
    if not row.verbs:
        return [word for word in told if "=" not in word]
    verb = next((verb.split() for verb in row.verbs if told[: len(verb.split())] == verb.split()), None)
    return None if verb is None else told[len(verb) :]


def _default(row: TaskRunner, document: Document) -> list[Task]:
    own = [task for task in document.tasks if task.role == "main" and not task.name.startswith(".")]
    return own if row.all else own[:1]


def _document(
    project: Project,
    locator: PathResolver,
    document: Document,
    command: Command,
    row: TaskRunner,
    words: tuple[str, ...],
    start: Path | None,
) -> Document | None:
    folder = next((words[at + 1] for at, word in enumerate(words[:-1]) if word in row.folder), "")
    for name in row.files:
        found = locator.locate(
            f"{folder}/{name}".lstrip("/") if folder else name, working_dir(command), document.path, start
        )
        if found is not None:
            return project.document(found[0])
    return None
