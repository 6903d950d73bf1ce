"""Rows on shell commands that bring something onto the machine."""

from __future__ import annotations

from gpulint.libraries.names import words
from gpulint.records import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that installs packages, or fetches data or weights."""

    programs: tuple[str, ...]
    """Patterns of its name; ``python -m NAME`` counts as well."""
    verbs: tuple[str, ...] = ()
    """What it has to be told, options aside: ``install``, ``env create``."""
    anywhere: str = ""
    """A text that has to be in one of the arguments."""
    shown: str = ""
    """Its name in messages, if that is another."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return " ".join((*self.programs[:1], *self.verbs[:1]))

    @property
    def words(self) -> frozenset[str]:
        """A file that runs the program has one of these words."""
        return words(self.programs)


@dataclass(frozen=True, slots=True)
class HubProgram:
    """A program that loads a model or data set, of the Hugging Face hub if it is given an identifier of it."""

    programs: tuple[str, ...]
    """Patterns of its name; ``python -m NAME`` counts as well."""
    verbs: tuple[str, ...] = ()
    """What it has to be told, options aside."""
    models: tuple[str, ...] = ()
    """Options whose value is a model, or, with ``=`` at their end, what precedes one in a list (``pretrained=``)."""
    data: tuple[str, ...] = ()
    """Options whose value is a data set."""
    position: int | None = None
    """Place of the model among the plain arguments after the verb."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return " ".join((*self.programs[:1], *self.verbs[:1]))

    @property
    def words(self) -> frozenset[str]:
        """A file that runs the program has one of these words."""
        return words(self.programs)


@dataclass(frozen=True, slots=True)
class Submitter:
    """A program that submits a command as a job, with the GPUs that it asks for."""

    programs: tuple[str, ...]
    """Patterns of its name."""
    verbs: tuple[str, ...] = ()
    """What it has to be told, options aside: ``launch``, ``jobs launch``."""
    gpus: tuple[str, ...] = ()
    """Options whose value holds the number of GPUs per node (``4``, ``gpu:4``, ``A100:4``, ``gpu=4``)."""
    command: tuple[str, ...] = ()
    """Options whose value is the command, as shell text."""
    last: bool = False
    """The last word is the command, as shell text."""
    rest: bool = False
    """The command follows ``--``."""
    system: str = ""
    """What the job is for; the program's name if nothing is given."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return " ".join((*self.programs[:1], *self.verbs[:1]))

    @property
    def words(self) -> frozenset[str]:
        """A file that runs the program has one of these words."""
        return words(self.programs)


KINDS = {"installer": Tool, "downloader": Tool, "hub-program": HubProgram, "submitter": Submitter}
