"""Rows on shell commands that bring something onto the machine."""

from __future__ import annotations

from gpulint.libraries.names import words
from gpulint.records import dataclass


@dataclass(frozen=True, slots=True)
class Program:
    """A program, perhaps with what it is told to do."""

    programs: tuple[str, ...]
    """Patterns of its name; ``python -m NAME`` counts as well."""
    verbs: tuple[str, ...] = ()
    """What it has to be told, options aside: ``install``, ``env create``, ``jobs launch``."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return " ".join((*self.programs[:1], *self.verbs[:1]))

    @property
    def words(self) -> frozenset[str]:
        """A file that runs the program has one of these words."""
        return words(self.programs)


@dataclass(frozen=True, slots=True)
class Tool(Program):
    """A program that installs packages, or fetches data or weights."""

    anywhere: str = ""
    """A text that has to be in one of the arguments."""
    shown: str = ""
    """Its name in messages, if that is another."""
    image: bool = False
    """It writes an image file, and leaves one alone that is there."""


@dataclass(frozen=True, slots=True)
class HubProgram(Program):
    """A program that loads a model or data set, of the Hugging Face hub if it is given an identifier of it."""

    models: tuple[str, ...] = ()
    """Options whose value is a model, or, with ``=`` at their end, what precedes one in a list (``pretrained=``)."""
    data: tuple[str, ...] = ()
    """Options whose value is a data set."""
    position: int | None = None
    """Place of the model among the plain arguments after the verb."""
    named: str = ""
    """Names of the models (a regular expression) that the program itself knows where to fetch, instead of a hub's."""
    origin: str = ""
    """Where it fetches those from."""


@dataclass(frozen=True, slots=True)
class Submitter(Program):
    """A program that submits a command as a job, with the GPUs that it asks for."""

    gpus: tuple[str, ...] = ()
    """Options whose value holds the number of GPUs per node (``4``, ``gpu:4``, ``A100:4``, ``gpu=4``)."""
    machine: tuple[str, ...] = ()
    """Options whose value names the kind of machine."""
    command: tuple[str, ...] = ()
    """Options whose value is the command, as shell text."""
    last: bool = False
    """The last word is the command, as shell text."""
    rest: bool = False
    """The command follows ``--``."""
    flags: tuple[str, ...] = ()
    """Options without a value. Where some are given, the command follows the options, all others of which have one."""
    interactive: tuple[str, ...] = ()
    """Options that open a session for a person where no command is given."""
    system: str = ""
    """What the job is for; the program's name if nothing is given."""


@dataclass(frozen=True, slots=True)
class GpuProgram(Program):
    """A program that computes on GPUs: a script that runs it is a job on a machine with some."""


@dataclass(frozen=True, slots=True)
class CpuProgram(Program):
    """A program that computes for long, and on the CPU alone."""


@dataclass(frozen=True, slots=True)
class TaskRunner(Program):
    """A program that runs tasks which a file of the tree describes."""

    files: tuple[str, ...] = ()
    """Names of that file."""
    folder: tuple[str, ...] = ()
    """Options whose value is the file's folder."""
    all: bool = False
    """Without the name of a task it runs all of them, not the first."""
    keeps: bool = False
    """It keeps what a task has made, and runs the task again only if something that it reads has changed."""


@dataclass(frozen=True, slots=True)
class JobStarter(Program):
    """A program that starts a job elsewhere, so that the script around it needs no GPU itself."""


KINDS = {
    "task-runner": TaskRunner,
    "gpu-program": GpuProgram,
    "cpu-program": CpuProgram,
    "copier": Tool,
    "installer": Tool,
    "downloader": Tool,
    "hub-program": HubProgram,
    "submitter": Submitter,
    "job-starter": JobStarter,
}
