"""Rows on launchers: the options of each, how many processes it starts, and where the command that it runs begins."""

from __future__ import annotations

from typing import Literal

from gpulint.libraries.commands import Program
from gpulint.libraries.names import words
from gpulint.libraries.numbers import Number
from gpulint.records import dataclass


@dataclass(frozen=True, slots=True)
class Launcher(Program):
    """A program that runs another one: on several GPUs or nodes, in an environment, or in a container.

    Options are without leading dashes, ``_`` written as ``-``. An option that is in none of ``flags``, ``values``,
    ``pairs`` and ``ends`` takes a value when the next word is no option and cannot be the program.
    """

    name: str = ""
    """Its name for rules and messages; the program's if nothing is given."""
    extends: str = ""
    """The row from which it takes over the fields that it does not give."""
    system: str = ""
    """The launcher as which rules treat it; itself if nothing is given."""
    flags: tuple[str, ...] = ()
    """Options without a value."""
    values: tuple[str, ...] = ()
    """Options with a value."""
    pairs: tuple[str, ...] = ()
    """Options with two values (``-mca key value``)."""
    ends: tuple[str, ...] = ()
    """Options that the module to run follows (``-m``)."""
    other_options: Literal["by-value", "with-value"] = "by-value"
    """``with-value``: an option in none of the lists takes the next word, whatever that looks like."""
    runs: Literal["command", "python"] = "command"
    """``python``: what follows is a script of Python, unless the option ``no-python`` is given."""
    image: bool = False
    """The first word after the options is an image."""
    submits: bool = False
    """It runs the command on other machines than the script's."""
    distributed: bool = False
    """It starts processes, as many as the following fields say; without it, it only prepares a place to run."""
    training: bool = False
    """What it starts computes on GPUs, whatever the program is."""
    processes: tuple[Number, ...] = ()
    """Processes on each node; the first that is given counts."""
    total: Number | None = None
    """Processes on all nodes."""
    nodes: Number | None = None
    gpus: tuple[Number, ...] = ()
    """GPUs on each node that the launcher requests itself."""
    per_set: Number | None = None
    """Processes of each of the sets of resources that ``processes``, ``total`` and ``gpus`` count; one by default."""
    one_node: bool = False
    """All processes are on one node where neither ``nodes`` nor ``elsewhere`` is given."""
    elsewhere: tuple[str, ...] = ()
    """Options that name other nodes than ``localhost``."""
    for_each_gpu: tuple[str, ...] = ()
    """Options that start one process for each GPU."""
    devices: Number | None = None
    """The GPUs that ``for-each-gpu`` counts, where an option names them."""
    default: Literal["", "one", "for-each-gpu"] = ""
    """Processes on each node where nothing is stated; unknown if it is empty."""
    unless: tuple[str, ...] = ()
    """Options with which neither ``for-each-gpu`` nor ``default`` holds."""
    scheduler: str = ""
    """The batch system whose directives give the processes that are not stated here."""

    @property
    def launcher(self) -> str:
        """The launcher as which rules treat it."""
        return self.system or self.name or self.programs[0]

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.name or " ".join((*self.programs[:1], *self.verbs[:1]))

    @property
    def words(self) -> frozenset[str]:
        """A file that runs the program has one of these words. A module (``a.b``) follows ``python``."""
        return words(name for name in self.programs if "." not in name)


KINDS = {"launcher": Launcher}
