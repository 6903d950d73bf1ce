"""Which jobs hold GPUs, and the shell commands that run while they do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.finding import Place

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.documents.shell import Command
    from gpulint.jobs import Job, JobLaunch
    from gpulint.project import Project

_DISTRIBUTED = frozenset({"torchrun", "accelerate", "deepspeed", "horovodrun", "composer", "fabric"})


@dataclass(frozen=True, slots=True)
class Held:
    """A command that runs in ``job`` while its GPUs are held; ``evidence`` says why they are."""

    command: Command
    job: Job
    evidence: Place


class GpuJobs:
    """The jobs of one project that hold GPUs."""

    def __init__(self, project: Project) -> None:
        self._project = project

    @cached_property
    def held(self) -> tuple[tuple[Job, Place], ...]:
        """Jobs that hold GPUs, with what says so."""
        found = ((job, self._evidence(job)) for job in self._project.jobs)
        return tuple((job, evidence) for job, evidence in found if evidence is not None)

    def commands_of(self, document: Document) -> list[Held]:
        """Commands in a document that run in a GPU job, each once and in order."""
        found = self._by_document.get(document.path, {})
        return sorted(found.values(), key=lambda item: (item.command.span.line, item.command.span.column))

    @cached_property
    def _by_document(self) -> dict[Path, dict[tuple[int, int], Held]]:
        table: dict[Path, dict[tuple[int, int], Held]] = {}
        for job, evidence in self.held:
            for item in job.commands:
                span = item.command.span
                table.setdefault(item.document.path, {}).setdefault(
                    (span.line, span.column), Held(item.command, job, evidence)
                )
        return table

    def _evidence(self, job: Job) -> Place | None:
        """The GPUs that the job asks for; for a plain script, the GPU program that it launches."""
        if self._project.is_test(job.document.path) or job.task.role not in ("main", "init"):
            return None
        if job.gpus is not None:
            if job.gpus.value == 0:
                return None
            return Place(job.gpus.place.path, job.gpus.place.span, "the GPUs are held from here on")
        if job.task.system:
            return None
        start = next((start for start in job.launches if self._uses_gpu(start)), None)
        return Place(start.document.path, start.launch.span, "the GPU program that it starts") if start else None

    def _uses_gpu(self, start: JobLaunch) -> bool:
        if start.launch.launcher == "sbatch" or start.launch.uncalled:
            return False
        if start.program is not None:
            scopes = self._project.scopes_at(start.program)
            return scopes is not None and self._project.gpu_programs.runs(scopes)
        return start.launch.launcher in _DISTRIBUTED
