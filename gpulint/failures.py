"""What failed for one file, so that everything else can go on."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from gpulint.finding import Problem

MAX_CALLS_BEFORE = 400
"""Calls on the stack beyond which a recursion that ends too deep says nothing of the file that it is about."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception that cost one file, or a part of it."""

    path: Path
    where: str
    """Code of the rule, or the part of gpulint that failed."""
    error: Exception

    @property
    def problem(self) -> Problem | None:
        """What is wrong with the file; None if gpulint is at fault."""
        if isinstance(self.error, RecursionError):
            return Problem(self.path, "nested too deeply to be checked completely")
        if isinstance(self.error, MemoryError):
            return Problem(self.path, "needs more memory than there is; not checked completely")
        if isinstance(self.error, OSError):
            return Problem(self.path, f"cannot be read: {self.error.strerror or self.error}")
        return None


def is_about_file(error: Exception) -> bool:
    """Whether an exception that is caught here tells something of the file that was read or analysed.

    A file that is asked about late in a deep recursion may be fine: whoever asks next may get an answer.
    """
    return not isinstance(error, RecursionError) or sum(1 for _ in itertools.islice(_calls(), MAX_CALLS_BEFORE)) < (
        MAX_CALLS_BEFORE
    )


def _calls() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
