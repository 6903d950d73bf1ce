"""The jobs of a project, and their launches by program, file and place."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gpulint.launch.job import Job, Launched
from gpulint.launch.submitting import submitting_files
from gpulint.query import query, stored
from gpulint.rule import Kind
from gpulint.source import Span
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

_NO_LAUNCHERS = (Kind.PYTHON, None)
"""Kinds of files that no job starts from."""

_SUBMITTERS = frozenset(
    "kubectl oc sky sbatch qsub bsub dstack az mcli vessl gcloud argo docker docker-compose".split()
)
"""Programs that submit files with jobs."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class JobIndex:
    """The jobs of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    @query
    def jobs(self) -> tuple[Job, ...]:
        """Jobs of the project's launcher documents, in the order of its files."""
        project = self._project
        if all(project.kind(path) in _NO_LAUNCHERS for path in project.files) and not submitting_files(project):
            return ()
        from gpulint.launch.job_graph import JobLinker

        with project.containing(project.root, "job linking"):
            return JobLinker(project).jobs()
        return ()

    def jobs_in(self, path: Path) -> tuple[Job, ...]:
        """The jobs of one document."""
        return self._by_document().get(path, ())

    def jobs_with(self, path: Path) -> tuple[Job, ...]:
        """The jobs that run a command of a document."""
        return self._with_document().get(path, ())

    def jobs_setting(self, path: Path, span: Span) -> tuple[Job, ...]:
        """Jobs that get the environment variable that is set in a place."""
        return self._by_setting().get((path, span), ())

    def launches_of(self, program: Path) -> tuple[Launched, ...]:
        """Return how launchers start a program, or the programs that import this module for their options."""
        return self._by_program().get(program) or self._of_importers(program)

    def launches_at(self, path: Path, span: Span) -> tuple[Launched, ...]:
        """Launches of all jobs at a place."""
        return self._by_place().get((path, span), ())

    def launches_in(self, path: Path) -> tuple[Launched, ...]:
        """Launches of all jobs in a file."""
        return self._by_file().get(path, ())

    def is_submitted(self, path: Path) -> bool:
        """Return whether a launcher that is no test submits a file of the tests (``kubectl apply -f
        tests/train.yaml``)."""
        return self._project.kind(path) not in (*_NO_LAUNCHERS, Kind.NOTEBOOK) and path in self._submitted_tests()

    @query
    def _submitted_tests(self) -> frozenset[Path]:
        jobs = self.jobs()
        tests = {job.document.path for job in jobs if self._project.is_test(job.document.path)}
        if not tests:
            return frozenset()
        commands = (item.command for job in jobs if job.document.path not in tests for item in job.commands)
        submits = (command for command in commands if command.name in _SUBMITTERS)
        words = {word.text.lstrip("./") for command in submits for word in command.argv[1:]} - {""}
        return frozenset(path for path in tests if any(path.as_posix().endswith(f"/{word}") for word in words))

    @query
    def _of_importers(self, module: Path) -> tuple[Launched, ...]:
        """Launches of the programs that import a module."""
        project, known = self._project, self._by_program()
        stem = word_of((module.parent if module.name == "__init__.py" else module).stem)
        programs = [path for path in known if project.word_index.holds(path, stem)]
        found = [known[path] for path in programs if module in project.imported(path)]
        return tuple(start for starts in found for start in starts)

    @query
    def _by_document(self) -> dict[Path, tuple[Job, ...]]:
        return _grouped((job.document.path, job) for job in self.jobs())

    @query
    def _with_document(self) -> dict[Path, tuple[Job, ...]]:
        return _grouped(
            (path, job) for job in self.jobs() for path in dict.fromkeys(item.document.path for item in job.commands)
        )

    @query
    def _by_setting(self) -> dict[tuple[Path, Span], tuple[Job, ...]]:
        return _grouped(
            (place, job)
            for job in self.jobs()
            for place in {(setting.place.path, setting.place.span) for setting in job.env}
        )

    @query
    def _launches(self) -> tuple[Launched, ...]:
        return tuple(Launched(job, start) for job in self.jobs() for start in job.launches)

    @query
    def _by_program(self) -> dict[Path, tuple[Launched, ...]]:
        return _grouped((item.start.program, item) for item in self._launches() if item.start.program is not None)

    @query
    def _by_file(self) -> dict[Path, tuple[Launched, ...]]:
        return _grouped((item.start.document.path, item) for item in self._launches())

    @query
    def _by_place(self) -> dict[tuple[Path, Span], tuple[Launched, ...]]:
        return _grouped(((item.start.document.path, item.start.launch.span), item) for item in self._launches())


@stored("job documents")
def job_documents(project: Project) -> tuple[Path, ...]:
    """Documents that hold jobs, in the order of the tree's files."""
    return tuple(dict.fromkeys(job.document.path for job in project.fact(JobIndex).jobs()))


def _grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, tuple[T, ...]]:
    table: dict[K, list[T]] = {}
    for key, value in pairs:
        table.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in table.items()}
