"""What a scan found: findings with their fixes, problems and internal errors."""

from __future__ import annotations

from pathlib import Path

from gpulint.failures import Failure, Origin, PluginError
from gpulint.finding import Finding, Place, Problem
from gpulint.fix import Declined, Fix
from gpulint.records import dataclass, field


@dataclass(frozen=True, slots=True)
class Result:
    """A finding with what its fixer makes of it (None: there is no fixer, or fixes were not asked for)."""

    finding: Finding
    fix: Fix | Declined | None = None


@dataclass(frozen=True, slots=True)
class InternalError:
    """A rule, fixer or reader that raised: the fault of gpulint or of a plugin, never the user's."""

    where: str
    """Code of the rule, or the part of gpulint that failed."""
    path: Path
    error: str
    trace: str = field(default="", compare=False)
    plugin: Origin | None = None
    """Whose rule or fixer it is, if it is a plugin's."""

    @property
    def title(self) -> str:
        """What kind of error this is."""
        return f"error in {self.where} of {self.plugin}" if self.plugin else f"internal error in {self.where}"


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job that holds GPUs: the launcher, what it starts and how many GPUs it holds."""

    place: Place
    """Where the launcher requests or first uses the GPUs."""
    name: str
    """The job's own name, else the name of its task or file."""
    gpus: int | None
    """GPUs of all nodes together; None if the number is unknown."""
    programs: tuple[Path, ...]
    """Programs of the tree that it starts, in order."""
    files: tuple[Path, ...]
    """Files of the tree that it runs or reads: its launcher, scripts, programs, their imports and configurations."""
    evaluates: bool = False
    """Whether its commands ask the programs to evaluate only."""


@dataclass
class Report:
    """What a run found; sorted, and the same for any number of processes."""

    results: list[Result] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    errors: list[InternalError] = field(default_factory=list)
    jobs: list[JobSummary] = field(default_factory=list)
    """Jobs of the scanned tree that hold GPUs, in the order of their files."""

    def extend(self, other: Report) -> None:
        """Take over everything of ``other``."""
        self.results += other.results
        self.problems += other.problems
        self.errors += other.errors
        self.jobs += other.jobs

    def record(self, failure: Failure) -> None:
        """Take up what failed: as a problem of the file if that is to blame, else as an error of gpulint's own."""
        problem = failure.problem
        if problem is not None:
            self.problems.append(problem)
        else:
            self.errors.append(internal_error(failure.where, failure.path, failure.error))


def internal_error(where: str, path: Path, error: Exception) -> InternalError:
    import traceback

    # The text of a deep recursion is useless and long, so the trace is cut from the front.
    trace = "".join(traceback.format_exception(error))[-4000:]
    if isinstance(error, PluginError):
        return InternalError(where, path, str(error), trace, error.origin)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return InternalError(where, path, f"{type(error).__name__}: {error}{place}", trace)
