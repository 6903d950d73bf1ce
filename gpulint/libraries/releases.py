"""Rows on releases: from which one on a library has what fixes write."""

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


KINDS = {"new-api": NewApi}
