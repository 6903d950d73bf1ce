"""Jobs: a launcher (batch script, job spec, image) linked to the scripts that it calls and the programs that it starts.

Nothing here asks what values a program's options have, since those may in turn come from the jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.documents.base import Document
from gpulint.documents.shell import Command
from gpulint.documents.tasks import Task
from gpulint.finding import Place
from gpulint.launch.option_parser import passed_option, passed_override
from gpulint.launch.program_launches import Launch
from gpulint.records import dataclass, field
from gpulint.rule import Kind

if TYPE_CHECKING:
    from gpulint.documents.python import PythonModule
    from gpulint.documents.shell import ArgWord
    from gpulint.source import Span

__all__ = [
    "DeclaredCount",
    "Job",
    "JobCommand",
    "JobLaunch",
    "Launched",
    "Setting",
]


_CODE = (Kind.PYTHON, Kind.NOTEBOOK)
_FAN_OUT = frozenset("parallel xargs tmux screen sem ts hyperqueue wandb orion optuna guild".split())
"""Commands that run several programs at once or one after another out of our sight."""
_ADMINISTERS = frozenset({"login", "online", "offline", "enabled", "disabled", "init", "sync"})
"""What such a command is told where it runs nothing (``wandb login``)."""


@dataclass(frozen=True, slots=True)
class DeclaredCount:
    """A number that a launcher requests; ``value`` is None where it could not be determined."""

    value: int | None
    place: Place
    text: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """An environment variable with its value; None when that could not be told."""

    name: str
    value: str | None
    place: Place


@dataclass(frozen=True, slots=True)
class JobCommand:
    """A command that the job runs, and the document it stands in."""

    command: Command
    document: Document

    @property
    def place(self) -> Place:
        return Place(self.document.path, self.command.span)


@dataclass(frozen=True, eq=False)
class JobLaunch:
    """A program that the job starts. ``program`` is None when it is no Python file of the tree."""

    launch: Launch
    document: Document
    program: Path | None = None
    module: PythonModule | None = None
    """The program when a document carries its text (a ConfigMap's file)."""
    env: Mapping[str, Setting] = field(default_factory=dict)
    """All variables that the job is seen to set for it."""
    config: Path | None = None
    """The file that ``accelerate launch --config_file`` names, if the tree has it."""
    script: Document | None = None
    """The shell script that it runs, whose own launches are the job's as well."""

    @property
    def place(self) -> Place:
        return Place(self.document.path, self.launch.span)


@dataclass(frozen=True, eq=False)
class Job:
    """One task of a launcher document and all that it sets going.

    ``gpus``, ``cpus``, ``tasks_per_node`` are per node (batch systems) or replica (Kubernetes). ``commands`` are its
    own and those of the scripts that it calls.
    """

    document: Document
    task: Task
    gpus: DeclaredCount | None = None
    cpus: DeclaredCount | None = None
    nodes: DeclaredCount | None = None
    tasks_per_node: DeclaredCount | None = None
    env: tuple[Setting, ...] = ()
    commands: tuple[JobCommand, ...] = ()
    launches: tuple[JobLaunch, ...] = ()
    scripts: tuple[Document, ...] = ()
    """Documents whose shell the job runs, its own first."""
    image: Document | None = None
    """The Dockerfile whose default command the task runs, if it has no command of its own."""
    container: tuple[str, Path] | None = None
    """The option with which a command puts the script of the job into a container, and the file of the command."""

    @property
    def place(self) -> Place:
        return Place(self.document.path, self.task.span)

    @cached_property
    def settings(self) -> Mapping[str, tuple[Setting, ...]]:
        """``env`` by the name of the variable."""
        found: dict[str, list[Setting]] = {}
        for setting in self.env:
            found.setdefault(setting.name, []).append(setting)
        return {name: tuple(settings) for name, settings in found.items()}

    @cached_property
    def calls(self) -> Mapping[Path, tuple[JobLaunch, ...]]:
        """Launches that run a shell script, by the script's file."""
        found: dict[Path, list[JobLaunch]] = {}
        for item in self.launches:
            if item.script is not None:
                found.setdefault(item.script.path, []).append(item)
        return {path: tuple(items) for path, items in found.items()}

    @cached_property
    def is_parallel(self) -> bool:
        """Whether some of it runs in the background, or under a command that starts programs out of our sight."""
        return any(item.launch.command.background for item in self.launches) or any(
            item.command.background or _fans_out(item.command) for item in self.commands
        )

    @cached_property
    def last_start(self) -> Span | None:
        """The last place in its own document where it launches something."""
        own = (item for item in self.launches if item.document.path == self.document.path and not item.launch.uncalled)
        return max((item.launch.span for item in own), default=None)

    @cached_property
    def starts_elsewhere(self) -> bool:
        """Whether scripts that it calls launch something."""
        return any(item.document.path != self.document.path and not item.launch.uncalled for item in self.launches)

    @cached_property
    def numbers(self) -> Mapping[JobLaunch, int]:
        """Where each launch stands among all."""
        return {start: number for number, start in enumerate(self.launches)}

    @cached_property
    def starters(self) -> frozenset[int]:
        """Identities of the commands that launch something."""
        return frozenset(id(item.launch.command) for item in self.launches)

    @cached_property
    def started_by(self) -> Mapping[int, tuple[JobLaunch, ...]]:
        """Launches by the identity of their command."""
        found: dict[int, list[JobLaunch]] = {}
        for item in self.launches:
            found.setdefault(id(item.launch.command), []).append(item)
        return {command: tuple(items) for command, items in found.items()}

    @cached_property
    def programs(self) -> tuple[Path, ...]:
        """Python files of the tree that the job starts, each once."""
        return tuple(dict.fromkeys(item.program for item in self.launches if item.program is not None))

    @property
    def complete(self) -> bool:
        """Whether all that the job starts is known: every launch is a file of the tree and nothing else runs."""
        return bool(self.launches) and all(
            item.program is not None or item.module is not None or item.script is not None for item in self.launches
        )


def _fans_out(command: Command) -> bool:
    return command.name in _FAN_OUT and not any(word.text in _ADMINISTERS for word in command.argv[1:2])


@dataclass(frozen=True, eq=False)
class Launched:
    """How one launcher starts a program."""

    job: Job
    start: JobLaunch

    @property
    def origin(self) -> Path:
        """The launcher's file."""
        return self.start.document.path

    @property
    def first(self) -> str | None:
        """The first argument, if it is known."""
        return self.start.launch.args[0].value if self.start.launch.args else None

    def option(self, flags: tuple[str, ...]) -> list[tuple[str | None, Place]]:
        """Return what the launcher passes for an option: [] if nothing, text None if unknown, ``true`` for a bare flag.

        The last one counts, as argparse has it. What a Python program passes that is unknown counts as not given: the
        program's own defaults are like it.
        """
        passed = [(text, self._place(word)) for text, word in passed_option(self.start.launch.args, flags)]
        return [one for one in passed if one[0] is not None] if self.start.document.kind in _CODE else passed

    def override(self, key: str) -> list[tuple[str | None, Place]]:
        """Return what the launcher sets a dotted key of the program's configuration to, as :meth:`option` does."""
        return [(text, self._place(word)) for text, word in passed_override(self.start.launch.args, key)]

    def positional(self, number: int) -> list[tuple[str | None, Place]]:
        """The same for the positional argument of that number (from 0); unknown after an option."""
        before = self.start.launch.args[: number + 1]
        if len(before) <= number or any(word.text.startswith("-") or not word.known for word in before):
            return [(None, self._place(word)) for word in before[-1:]]
        return [(before[number].value, self._place(before[number]))]

    def environment(self, name: str) -> Setting | None:
        """The variable as the launcher sets it for the program."""
        return self.start.env.get(name)

    def _place(self, word: ArgWord) -> Place:
        return Place(self.start.document.path, word.span, "set by the launcher")
