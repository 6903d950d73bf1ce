"""The project: the documents of one tree and the facts that span them, each computed when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gpulint.facts.memo import Memo
from gpulint.rule import Kind
from gpulint.tree import Tree
from gpulint.words import word_of

if TYPE_CHECKING:
    from gpulint.config import Config
    from gpulint.estimates import BatchSizes, Estimates
    from gpulint.facts.arguments import Arguments
    from gpulint.facts.batch_bounds import BatchBounds
    from gpulint.facts.batches import Batches
    from gpulint.facts.checkpoints import Checkpoints
    from gpulint.facts.devices import Devices
    from gpulint.facts.downloads import Downloads
    from gpulint.facts.draws import Draws
    from gpulint.facts.feeding import Feeding
    from gpulint.facts.gpu_jobs import GpuJobs
    from gpulint.facts.gpu_programs import GpuPrograms
    from gpulint.facts.gpuuse import GpuUse
    from gpulint.facts.guards import Guards
    from gpulint.facts.loaders import Loaders
    from gpulint.facts.loops import Loops
    from gpulint.facts.once import Answers
    from gpulint.facts.own_batches import OwnBatches
    from gpulint.facts.remote import Paths
    from gpulint.facts.resolve import Resolver
    from gpulint.facts.staging import Staging
    from gpulint.facts.syncs import Syncs
    from gpulint.facts.values import Values
    from gpulint.jobs import Job, Launched
    from gpulint.source import Span

_NO_LAUNCHERS = (Kind.PYTHON, Kind.NOTEBOOK, None)
"""Kinds of files that no job starts from."""


class Project(Tree):
    """What rules and fixers ask: a tree with its facts."""

    def __init__(self, root: Path, files: Sequence[Path], config: Config) -> None:
        super().__init__(root, files, config)
        self.memo = Memo()
        """Answers of functions that follow calls and keep none themselves."""
        self._inherited: dict[Path, tuple[Launched, ...]] = {}
        self.answers: Answers = {}
        """Kept for :func:`gpulint.facts.once.once`."""
        self.estimates: Estimates | None = None
        """Batch sizes that fit, if the user asked for them to be estimated."""

    def successor(
        self, changed: Iterable[Path], files: Sequence[Path] | None = None, config: Config | None = None
    ) -> Self:
        """As for a tree; estimates are kept."""
        project = super().successor(changed, files, config)
        project.estimates = self.estimates
        return project

    def batch_that_fits(self, path: Path) -> BatchSizes | None:
        """What fits the program of ``path``; None if nobody asked, or for another program."""
        return self.estimates.of(self, path) if self.estimates is not None else None

    @cached_property
    def resolver(self) -> Resolver:
        from gpulint.facts.resolve import Resolver

        return Resolver(self)

    @cached_property
    def values(self) -> Values:
        from gpulint.facts.values import Values

        return Values(self)

    @cached_property
    def arguments(self) -> Arguments:
        from gpulint.facts.arguments import Arguments

        return Arguments(self)

    @cached_property
    def guards(self) -> Guards:
        from gpulint.facts.guards import Guards

        return Guards(self)

    @cached_property
    def loops(self) -> Loops:
        from gpulint.facts.loops import Loops

        return Loops(self)

    @cached_property
    def loaders(self) -> Loaders:
        from gpulint.facts.loaders import Loaders

        return Loaders(self)

    @cached_property
    def draws(self) -> Draws:
        from gpulint.facts.draws import Draws

        return Draws(self)

    @cached_property
    def feeding(self) -> Feeding:
        from gpulint.facts.feeding import Feeding

        return Feeding(self)

    @cached_property
    def own_batches(self) -> OwnBatches:
        from gpulint.facts.own_batches import OwnBatches

        return OwnBatches(self)

    @cached_property
    def devices(self) -> Devices:
        from gpulint.facts.devices import Devices

        return Devices(self)

    @cached_property
    def batches(self) -> Batches:
        from gpulint.facts.batches import Batches

        return Batches(self)

    @cached_property
    def batch_bounds(self) -> BatchBounds:
        from gpulint.facts.batch_bounds import BatchBounds

        return BatchBounds(self)

    @cached_property
    def syncs(self) -> Syncs:
        from gpulint.facts.syncs import Syncs

        return Syncs(self)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        from gpulint.facts.checkpoints import Checkpoints

        return Checkpoints(self)

    @cached_property
    def paths(self) -> Paths:
        from gpulint.facts.remote import Paths

        return Paths(self)

    @cached_property
    def downloads(self) -> Downloads:
        from gpulint.facts.downloads import Downloads

        return Downloads(self)

    @cached_property
    def staging(self) -> Staging:
        from gpulint.facts.staging import Staging

        return Staging(self)

    @cached_property
    def gpu_programs(self) -> GpuPrograms:
        from gpulint.facts.gpu_programs import GpuPrograms

        return GpuPrograms(self)

    @cached_property
    def gpu_jobs(self) -> GpuJobs:
        from gpulint.facts.gpu_jobs import GpuJobs

        return GpuJobs(self)

    @cached_property
    def gpu_use(self) -> GpuUse:
        from gpulint.facts.gpuuse import GpuUse

        return GpuUse(self)

    def launched(self, program: Path) -> tuple[Launched, ...]:
        """How launchers of the tree start a program, or the programs that import this module for their options."""
        return self._launched.get(program) or self._launched_importers(program)

    @cached_property
    def _launched(self) -> dict[Path, tuple[Launched, ...]]:
        from gpulint.jobs import launched

        return launched(self.jobs)

    def launched_at(self, path: Path, span: Span) -> tuple[Launched, ...]:
        """Launches of all jobs at a place."""
        return self._launched_at.get((path, span), ())

    @cached_property
    def _launched_at(self) -> dict[tuple[Path, Span], tuple[Launched, ...]]:
        from gpulint.jobs import started_at

        return started_at(self.jobs)

    def launched_in(self, path: Path) -> tuple[Launched, ...]:
        """Launches of all jobs in a file."""
        return self._launched_in.get(path, ())

    @cached_property
    def _launched_in(self) -> dict[Path, tuple[Launched, ...]]:
        from gpulint.jobs import launched_in

        return launched_in(self.jobs)

    def jobs_setting(self, path: Path, span: Span) -> tuple[Job, ...]:
        """Jobs that get the environment variable that is set in a place."""
        return self._jobs_setting.get((path, span), ())

    @cached_property
    def _jobs_setting(self) -> dict[tuple[Path, Span], tuple[Job, ...]]:
        from gpulint.jobs import setting_at

        return setting_at(self.jobs)

    def _launched_importers(self, module: Path) -> tuple[Launched, ...]:
        """Launches of the programs that import a module."""
        if module not in self._inherited:
            stem = word_of((module.parent if module.name == "__init__.py" else module).stem)
            programs = [path for path in self._launched if self.words.holds(path, stem)]
            found = [self._launched[path] for path in programs if module in self.imported(path)]
            self._inherited[module] = tuple(start for starts in found for start in starts)
        return self._inherited[module]

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        if all(self.kind(path) in _NO_LAUNCHERS for path in self.files):
            return ()
        from gpulint.jobs import build_jobs

        with self.containing(self.root, "job linking"):
            return build_jobs(self)
        return ()
