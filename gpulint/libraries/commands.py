"""Rows on shell commands that bring something onto the machine."""

from __future__ import annotations

import re

from gpulint.libraries.operations import Pattern
from gpulint.records import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that installs packages, or fetches data or weights."""

    program: Pattern
    """Its whole name; ``python -m NAME`` counts as well."""
    verbs: tuple[str, ...] = ()
    """What it has to be told, options aside: ``install``, ``env create``."""
    anywhere: str = ""
    """A text that has to be in one of the arguments."""
    shown: str = ""
    """Its name in messages, if that is another."""

    @property
    def label(self) -> str:
        """What tells the row from others of its kind."""
        return " ".join((self.program, *self.verbs[:1]))

    @property
    def words(self) -> frozenset[str]:
        """A file that runs the program has one of these words."""
        return frozenset(re.findall(r"\w{2,}", self.program)[:1])


KINDS = {"installer": Tool, "downloader": Tool}
