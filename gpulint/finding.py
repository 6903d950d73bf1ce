"""Findings: what a rule reports and everything a reporter, a fixer or an editor needs to know of it."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.impact import Cost, Impact
from gpulint.records import dataclass, field
from gpulint.source import Span

if TYPE_CHECKING:
    from gpulint.rule import Rule


class Severity(enum.IntEnum):
    """How sure and how large the waste is; ordered, so that ``severity >= Severity.WARNING`` reads as it should."""

    INFO = 1
    """Advice that a measurement must decide."""
    WARNING = 2
    """Clear waste."""
    ERROR = 3
    """A GPU certainly sits unused, or most of the job does."""

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere in some file, with what it contributes (the spec that requests the GPUs, an argparse default ...)."""

    path: Path
    span: Span
    message: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One reported waste.

    ``message`` is one line that names the thing found; ``help`` says what to do in this code. ``payload`` is the
    rule's own typed evidence for its fixer. ``severity`` may be lower or higher than the rule's usual one.
    """

    rule: Rule
    path: Path
    span: Span
    message: str
    help: str = ""
    severity: Severity = Severity.WARNING
    payload: object = field(default=None, compare=False)
    related: tuple[Place, ...] = ()
    impact: Impact = field(default=Impact(), compare=False)
    """What it costs; the engine fills this in."""
    cost: Cost | None = field(default=None, compare=False)
    """What the rule knows of the cost here; None: what it says of all its findings (``Rule.cost``)."""
    cause: Place | None = field(default=None, compare=False)
    """What several findings of the rule have in common, such as the loop that they are in; people see these as one."""
    unreached: tuple[Path, ...] = field(default=(), compare=False)
    """Programs of jobs that import the file, but nothing of what the finding is about, and files of jobs whose options
    choose other branches; the engine fills this in."""

    @property
    def sort_key(self) -> tuple[str, int, Span, str]:
        cell = -1 if self.span.cell is None else self.span.cell
        span = Span(self.span.line, self.span.column, self.span.end_line, self.span.end_column, cell)
        return str(self.path), cell, span, self.rule.code


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that kept gpulint from reading a file whole (syntax error, wrong encoding, broken YAML), never a
    finding."""

    path: Path
    message: str
    line: int | None = None
    column: int | None = None
    is_error: bool = True
    """False for a plain note (a Helm template or a huge file that was skipped) and for a warning."""
    cell: int | None = None
    """In notebooks the index of the cell, where one is to blame; line and column then count within it."""
    is_warning: bool = False
    """The file was read, but holds a mistake that concerns gpulint, such as a suppression of an unknown rule; or it has
    still to be fetched."""

    @property
    def order(self) -> tuple[str, bool, int, int]:
        """Where it comes in a report: by file, cell and line; what is said of all other cells of a notebook last."""
        of_rest = self.line is None and self.path.suffix == ".ipynb"
        return str(self.path), of_rest, self.cell or 0, self.line or 0

    @property
    def level(self) -> str:
        """``error``, ``warning`` or ``note``."""
        return "error" if self.is_error else "warning" if self.is_warning else "note"
