"""Rows on releases: from which one on a library has what fixes write, or its objects have random states."""

from __future__ import annotations

from typing import Annotated

from gpulint import regex
from gpulint.records import dataclass

_RELEASE = regex.compile(r"\d{1,9}(\.\d{1,9})*")


def check_release(value: str) -> None:
    """Raise ValueError for what is no release."""
    if _RELEASE.fullmatch(value) is None:
        raise ValueError(f"must be a release such as '1.7', not {value[:60]!r}")


@dataclass(frozen=True, slots=True)
class NewApi:
    """Names and arguments that older releases of a library lack."""

    written: tuple[str, ...]
    """The text that a fix writes."""
    packages: tuple[str, ...]
    """How lists of packages name the library."""
    since: Annotated[str, check_release]
    """The first release that has it: ``1.7``."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return f"{self.written[0]} of {self.packages[0]}"

    @property
    def words(self) -> frozenset[str]:
        """No file is a finding for what a fix would write."""
        return frozenset()

    @property
    def release(self) -> tuple[int, ...]:
        """The first release, as numbers."""
        return tuple(int(part) for part in self.since.split("."))


@dataclass(frozen=True, slots=True)
class OwnRandomState:
    """Classes whose objects draw from a random state of their own, which nothing seeds anew in a worker."""

    classes: tuple[str, ...]
    """Patterns of their names."""
    packages: tuple[str, ...]
    """How lists of packages name the library."""
    since: Annotated[str, check_release]
    """The first release in which they do; before it they draw from the global states."""
    seed: str
    """The method that seeds an object."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return self.classes[0]

    @property
    def words(self) -> frozenset[str]:
        """No file is a finding for its random numbers."""
        return frozenset()

    @property
    def imports(self) -> tuple[str, ...]:
        """The packages that a program imports to use the classes."""
        return tuple(dict.fromkeys(name.partition(".")[0] for name in self.classes))

    @property
    def release(self) -> tuple[int, ...]:
        """The first release, as numbers."""
        return tuple(int(part) for part in self.since.split("."))


KINDS = {"new-api": NewApi, "own-random-state": OwnRandomState}
