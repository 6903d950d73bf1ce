"""The project: the documents of one tree and the facts that span them, each computed when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gpulint.memo import Memo
from gpulint.rule import Kind
from gpulint.workspace.tree import Tree
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.config import Config
    from gpulint.estimates import BatchSizes, Estimates
    from gpulint.launch.job import Job, Launched
    from gpulint.once import Answers
    from gpulint.placement.batch_classes import BatchClasses
    from gpulint.placement.batch_flow import BatchFlow
    from gpulint.placement.devices import Devices
    from gpulint.placement.host_to_device import HostToDevice
    from gpulint.placement.synchronization import SyncPoints
    from gpulint.programs.gpu_jobs import GpuJobs
    from gpulint.programs.gpu_programs import GpuPrograms
    from gpulint.programs.multi_gpu_use import MultiGpuUse
    from gpulint.semantic.points_to import Resolver
    from gpulint.source import Span
    from gpulint.training.guards import Guards
    from gpulint.training.loader_flow import LoaderFlow
    from gpulint.training.loop_contexts import LoopContexts
    from gpulint.transfers.checkpoints import Checkpoints
    from gpulint.transfers.downloads import Downloads
    from gpulint.transfers.prefetching import Prefetching
    from gpulint.transfers.storage import StorageLocations
    from gpulint.values.arguments import Arguments
    from gpulint.values.constants import Constants
    from gpulint.workload.batch_size_limits import BatchSizeLimits
    from gpulint.workload.batch_sources import BatchSources

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
        """Kept for :func:`gpulint.once.once`."""
        self.estimates: Estimates | None = None
        """Batch sizes that fit, if the user asked for them to be estimated."""
        self.rule_names: frozenset[str] = frozenset()
        """Codes and names of all rules, whether they run or not; empty where suppressions are not checked for them."""

    def successor(
        self, changed: Iterable[Path], files: Sequence[Path] | None = None, config: Config | None = None
    ) -> Self:
        """As for a tree; estimates are kept."""
        project = super().successor(changed, files, config)
        project.estimates = self.estimates
        project.rule_names = self.rule_names
        return project

    def batch_that_fits(self, path: Path) -> BatchSizes | None:
        """What fits the program of ``path``; None if nobody asked, or for another program."""
        return self.estimates.of(self, path) if self.estimates is not None else None

    @cached_property
    def resolver(self) -> Resolver:
        from gpulint.semantic.points_to import Resolver

        return Resolver(self)

    @cached_property
    def constants(self) -> Constants:
        from gpulint.values.constants import Constants

        return Constants(self)

    @cached_property
    def arguments(self) -> Arguments:
        from gpulint.values.arguments import Arguments

        return Arguments(self)

    @cached_property
    def guards(self) -> Guards:
        from gpulint.training.guards import Guards

        return Guards(self)

    @cached_property
    def loops(self) -> LoopContexts:
        from gpulint.training.loop_contexts import LoopContexts

        return LoopContexts(self)

    @cached_property
    def loaders(self) -> LoaderFlow:
        from gpulint.training.loader_flow import LoaderFlow

        return LoaderFlow(self)

    @cached_property
    def batch_flow(self) -> BatchFlow:
        from gpulint.placement.batch_flow import BatchFlow

        return BatchFlow(self)

    @cached_property
    def host_to_device(self) -> HostToDevice:
        from gpulint.placement.host_to_device import HostToDevice

        return HostToDevice(self)

    @cached_property
    def batch_classes(self) -> BatchClasses:
        from gpulint.placement.batch_classes import BatchClasses

        return BatchClasses(self)

    @cached_property
    def devices(self) -> Devices:
        from gpulint.placement.devices import Devices

        return Devices(self)

    @cached_property
    def batch_sources(self) -> BatchSources:
        from gpulint.workload.batch_sources import BatchSources

        return BatchSources(self)

    @cached_property
    def batch_size_limits(self) -> BatchSizeLimits:
        from gpulint.workload.batch_size_limits import BatchSizeLimits

        return BatchSizeLimits(self)

    @cached_property
    def sync_points(self) -> SyncPoints:
        from gpulint.placement.synchronization import SyncPoints

        return SyncPoints(self)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        from gpulint.transfers.checkpoints import Checkpoints

        return Checkpoints(self)

    @cached_property
    def storage_locations(self) -> StorageLocations:
        from gpulint.transfers.storage import StorageLocations

        return StorageLocations(self)

    @cached_property
    def downloads(self) -> Downloads:
        from gpulint.transfers.downloads import Downloads

        return Downloads(self)

    @cached_property
    def prefetching(self) -> Prefetching:
        from gpulint.transfers.prefetching import Prefetching

        return Prefetching(self)

    @cached_property
    def gpu_programs(self) -> GpuPrograms:
        from gpulint.programs.gpu_programs import GpuPrograms

        return GpuPrograms(self)

    @cached_property
    def gpu_jobs(self) -> GpuJobs:
        from gpulint.programs.gpu_jobs import GpuJobs

        return GpuJobs(self)

    @cached_property
    def multi_gpu_use(self) -> MultiGpuUse:
        from gpulint.programs.multi_gpu_use import MultiGpuUse

        return MultiGpuUse(self)

    def launched(self, program: Path) -> tuple[Launched, ...]:
        """How launchers of the tree start a program, or the programs that import this module for their options."""
        return self._launched.get(program) or self._launched_importers(program)

    @cached_property
    def _launched(self) -> dict[Path, tuple[Launched, ...]]:
        from gpulint.launch.job import launched

        return launched(self.jobs)

    def launched_at(self, path: Path, span: Span) -> tuple[Launched, ...]:
        """Launches of all jobs at a place."""
        return self._launched_at.get((path, span), ())

    @cached_property
    def _launched_at(self) -> dict[tuple[Path, Span], tuple[Launched, ...]]:
        from gpulint.launch.job import started_at

        return started_at(self.jobs)

    def launched_in(self, path: Path) -> tuple[Launched, ...]:
        """Launches of all jobs in a file."""
        return self._launched_in.get(path, ())

    @cached_property
    def _launched_in(self) -> dict[Path, tuple[Launched, ...]]:
        from gpulint.launch.job import launched_in

        return launched_in(self.jobs)

    def jobs_setting(self, path: Path, span: Span) -> tuple[Job, ...]:
        """Jobs that get the environment variable that is set in a place."""
        return self._jobs_setting.get((path, span), ())

    @cached_property
    def _jobs_setting(self) -> dict[tuple[Path, Span], tuple[Job, ...]]:
        from gpulint.launch.job import setting_at

        return setting_at(self.jobs)

    def _launched_importers(self, module: Path) -> tuple[Launched, ...]:
        """Launches of the programs that import a module."""
        if module not in self._inherited:
            stem = word_of((module.parent if module.name == "__init__.py" else module).stem)
            programs = [path for path in self._launched if self.word_index.holds(path, stem)]
            found = [self._launched[path] for path in programs if module in self.imported(path)]
            self._inherited[module] = tuple(start for starts in found for start in starts)
        return self._inherited[module]

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        if all(self.kind(path) in _NO_LAUNCHERS for path in self.files):
            return ()
        from gpulint.launch.job import build_jobs

        with self.containing(self.root, "job linking"):
            return build_jobs(self)
        return ()
