"""Rows on batch systems: what the directives in a script request."""

from __future__ import annotations

from typing import Annotated, Literal

from gpulint import regex
from gpulint.libraries import Models
from gpulint.libraries.numbers import Number
from gpulint.records import dataclass


def _prefix(text: str) -> None:
    if not regex.compile(r"#(\$|[A-Za-z]{2,12}:?)").fullmatch(text):
        raise ValueError("must be '#' and a word, such as '#SBATCH'")


def _machine(text: str) -> None:
    if not regex.compile(r"[\w.]+=\d+").fullmatch(text):
        raise ValueError("must be a name and a number, such as 'rt_F=4'")


@dataclass(frozen=True, slots=True)
class Gpus(Number):
    """Options that request GPUs."""

    per: Literal["node", "task", "job"] = "node"
    """What the number is for."""
    model: str = ""
    """What a value with the model of GPUs matches as a whole; its group is the model."""


@dataclass(frozen=True, slots=True)
class ResourceList:
    """An option with resources by name (``-l select=2:ngpus=4``); each field but the first lists such names."""

    options: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    """Tasks on each node."""
    cpus: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    machines: tuple[Annotated[str, _machine], ...] = ()
    """Names of kinds of machines, each with the GPUs of one (``rt_F=4``): the value is a number of machines."""

    def gpus_of(self, machine: str) -> int | None:
        """GPUs of a kind of machine; None for other names."""
        found = (one.partition("=") for one in self.machines)
        return next((int(gpus) for name, _, gpus in found if name == machine), None)


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """An option with the longest time that a job may take: ``[days-]hours:minutes:seconds``, or fewer fields."""

    options: tuple[str, ...]
    resource: str = ""
    """The name that it has in a list of resources (``-l walltime=24:00:00``)."""
    bare: int = 1
    """Seconds of one in a value of a single number."""
    last: int = 1
    """Seconds of one in the last of two fields."""

    def seconds(self, value: str) -> int | None:
        """Return the seconds of a value; None where it is no time, or zero, which stands for no limit."""
        match = _TIME.fullmatch(_entry(value, self.resource) if self.resource else value)
        if match is None:
            return None
        days, fields = int(match[1] or 0), [int(part) for part in match[2].split(":")]
        units: tuple[int, ...] = (3600, 60, 1)
        if match[1] is None and len(fields) < 3:
            units = (60 * self.last, self.last) if len(fields) == 2 else (self.bare,)
        return days * 86400 + sum(part * unit for part, unit in zip(fields, units, strict=False)) or None


_TIME = regex.compile(r"(?:(\d{1,4})-)?(\d{1,7}(?::\d{1,4}){0,2})")


def _entry(value: str, name: str) -> str:
    """Return the value of a name in a list of resources; empty without it."""
    found = (part.partition("=") for part in value.split(",") if "=" in part)
    return next((given for key, _, given in found if key == name), "")


@dataclass(frozen=True, slots=True)
class Scheduler:
    """How the directives of a batch system say what a job requests; options are without leading dashes."""

    name: str
    prefix: Annotated[str, _prefix]
    """What a line with directives starts with: ``#SBATCH``."""
    extends: str = ""
    """The row from which it takes over the fields that it does not give."""
    system: str = ""
    """The system as which rules treat it; the name if nothing is given."""
    glued: bool = False
    """The value of a short option may follow without a blank (``-N2``)."""
    gpus: tuple[Gpus, ...] = ()
    """The first that is given counts."""
    nodes: Number | None = None
    tasks: Number | None = None
    """Tasks on all nodes."""
    tasks_per_node: Number | None = None
    cpus: Number | None = None
    """CPU cores of each task."""
    slots: Number | None = None
    """CPU cores on all nodes."""
    resources: ResourceList | None = None
    time: TimeLimit | None = None
    job_name: tuple[str, ...] = ()
    working_dir: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    """Options that name the machines on which a job may run: a queue, a partition, features that they need to have."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.name

    @property
    def words(self) -> frozenset[str]:
        """A file with its directives has one of these words."""
        return frozenset({self.prefix})


def batch_systems(models: Models) -> frozenset[str]:
    """The systems whose jobs are scripts with directives."""
    return models.derived(_systems)


def _systems(models: Models) -> frozenset[str]:
    return frozenset(row.system or row.name for row in models.rows("scheduler"))


KINDS = {"scheduler": Scheduler}
