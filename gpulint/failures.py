"""What failed for one file, so that everything else can go on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpulint.finding import Problem


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
