"""A run by several processes: what of it is told to them, and what they tell."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint import peers, workers
from gpulint.finding import Problem
from gpulint.records import dataclass
from gpulint.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Container

    from gpulint.config import Config
    from gpulint.engine import Run, Unit
    from gpulint.estimates import Estimates
    from gpulint.report import Report


USUAL_BYTES = 10_000
"""Size of a usual file; a thousand tiny ones are soon read by one process."""


def worker_count(wanted: int | None, units: Sequence[Unit]) -> int:
    """Return how many processes to start; None leaves the choice to the number of units and their bytes."""
    if wanted is not None:
        return workers.worker_count(wanted, len(units))
    size = 0
    for path in {path for _, path in units}:
        with contextlib.suppress(OSError, ValueError):
            size += path.stat().st_size
    return workers.worker_count(None, min(len(units), size // USUAL_BYTES))


def reports(run: Run, units: Sequence[Unit], count: int) -> Iterator[Report]:
    """The reports of all units, in order, from ``count`` processes."""
    with contextlib.ExitStack() as stack:
        folder = None
        with contextlib.suppress(OSError):  # then each process finds out everything itself
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory("", "gpulint-", ignore_cleanup_errors=True)))
            for number in range(count):
                peers.file_of(folder, number).touch()
        task = _Task(run, folder, count)
        yield from map(task.unpacked, workers.spread(task, units, count))


@dataclass(frozen=True)
class _Inputs:
    """What a process that starts afresh makes the same run of."""

    root: Path
    files: tuple[Path, ...]
    config: Config
    explicit_files: Container[Path]
    use_byte_gate: bool
    provided: Mapping[Path, bytes | None]
    estimates: Estimates | None
    tell: Callable[[Any], Any] | None
    rules: tuple[str, ...]
    fixers: tuple[str, ...]

    def run(self) -> Run:
        """Raises KeyError for a rule or fixer of a plugin that is not installed."""
        from gpulint import plugins
        from gpulint.engine import Run
        from gpulint.project import Project

        loaded = plugins.load()
        rules = {rule.code: rule for rule in loaded.rules}
        project = Project(self.root, self.files, self.config)
        project.explicit_files, project.use_byte_gate = self.explicit_files, self.use_byte_gate
        project.estimates, project.db.tell = self.estimates, self.tell
        for path, data in self.provided.items():
            project.provide(path, data)
        return Run(project, [rules[code] for code in self.rules], {code: loaded.fixers[code] for code in self.fixers})


class _Task:
    """The :class:`gpulint.workers.Task` of a run. A forked process inherits the run, any other makes it anew."""

    def __init__(self, run: Run | _Inputs, folder: Path | None, count: int) -> None:
        """``folder`` is where the ``count`` processes tell each other answers."""
        self._given, self._folder, self._count = run, folder, count

    def __reduce__(self) -> tuple[type[_Task], tuple[_Inputs, Path | None, int]]:
        project = self._run.project
        inputs = _Inputs(
            project.root,
            project.files,
            project.config,
            project.explicit_files,
            project.use_byte_gate,
            project.provided,
            project.estimates,
            project.db.tell,
            tuple(rule.code for rule in self._run.rules),
            tuple(self._run.fixers),
        )
        return _Task, (inputs, self._folder, self._count)

    @property
    def _run(self) -> Run:
        if isinstance(self._given, _Inputs):
            self._given = self._given.run()
        return self._given

    def start(self, number: int | None) -> None:
        """Make the run, and open what the processes tell each other."""
        project = self._run.project
        project.db.keeps_reads = project.db.tell is not None
        if number is not None and self._folder is not None:
            with contextlib.suppress(OSError):
                project.db.peers = peers.Peers(project, self._folder, number, self._count)

    def answer(self, unit: Unit) -> bytes:
        """The packed report of a unit."""
        return _packed(self._run.unit(unit))

    def learned(self) -> bytes:
        """Return what was asked of the disk, what failed besides units, and, if somebody keeps them, the units that
        were done and the summaries of modules."""
        from gpulint.report import Report

        project, besides = self._run.project, Report()
        for failure in project.take_failures():
            besides.record(failure)
        done = project.db.tell(project) if project.db.tell is not None else None
        return pickle.dumps(
            (project.disk_asked, _packed(besides), done, tuple(project.known_modules() if done is not None else ()))
        )

    def take(self, learned: bytes | None) -> None:
        """Count what a worker asked of the disk as asked here."""
        if learned is None:
            self._run.project.knows_all_asked = False
            return
        asked, besides, done, modules = pickle.loads(learned)
        for known in modules:
            self._run.project.learn(*known)
        self._run.besides.extend(self.unpacked(besides))
        for question, paths in asked.items():
            self._run.project.disk_asked[question] |= paths
        if done is not None:
            self._run.project.db.told.append(done)

    def lost(self, unit: Unit, reason: str) -> bytes:
        """A report that says so."""
        from gpulint.report import Report

        message = f"not checked: the process that checked it {reason}, twice; it may need more memory than there is"
        return _packed(Report(problems=[Problem(unit[1], message)]))

    def unpacked(self, packed: bytes) -> Report:
        """A report with the rules of this process."""
        return _Unpickler(packed, {rule.code: rule for rule in self._run.rules}).load()  # type: ignore[no-any-return]


def _packed(report: Report) -> bytes:
    # Payloads hold syntax trees; their fixers have run, so nobody needs them on the other side.
    report.results = [
        dataclasses.replace(item, finding=dataclasses.replace(item.finding, payload=None)) for item in report.results
    ]
    stream = io.BytesIO()
    _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(report)
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    """Names rules by their code: their functions may be of any kind."""

    def persistent_id(self, value: Any) -> str | None:
        """The code of a rule."""
        return value.code if isinstance(value, Rule) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, packed: bytes, rules: Mapping[str, Rule]) -> None:
        super().__init__(io.BytesIO(packed))
        self._rules = rules

    def persistent_load(self, code: Any) -> Rule:
        """The rule of a code."""
        return self._rules[code]
