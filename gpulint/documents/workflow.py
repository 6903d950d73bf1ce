"""Files of build and workflow tools, HTCondor and Terraform: tasks with the shell that they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint.documents.base import Document
from gpulint.rule import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpulint.documents.shell import Script
    from gpulint.documents.tasks import Task
    from gpulint.libraries import Models
    from gpulint.source import SourceText

MAX_WORKFLOW = 500_000
"""Characters of a file beyond which it is generated and not read."""


class WorkflowDocument(Document):
    """A Makefile, Snakefile, Nextflow script, HTCondor submit file or Terraform file."""

    kind = Kind.WORKFLOW

    def read_tasks(self) -> tuple[Task, ...]:
        from gpulint.documents.workflows import MAX_TASKS

        if len(self.source.text) > MAX_WORKFLOW:
            self.problem(f"{len(self.source.text):,} characters skipped", 1, is_error=False)
            return ()
        found = tuple(_reader(self.path.suffix.lower())(self.source, self.models))
        if len(found) >= MAX_TASKS:
            self.problem(f"only the first {MAX_TASKS:,} tasks were analysed", found[-1].span.line, is_error=False)
        return found

    def read_scripts(self) -> tuple[Script, ...]:
        """The shell of all tasks."""
        own = tuple(dict.fromkeys(script for task in self.tasks for script in task.scripts))
        self.note_bounds(own)
        return own


def _reader(suffix: str) -> Callable[[SourceText, Models], list[Task]]:
    """Import only what the file at hand needs."""
    match suffix:
        case ".tf":
            from gpulint.documents.workflows import terraform

            return terraform.read
        case ".sub" | ".submit" | ".condor" | ".jdf" | ".jds":
            from gpulint.documents.workflows import condor

            return condor.read
        case ".nf":
            from gpulint.documents.workflows import nextflow

            return nextflow.read
        case ".smk":
            from gpulint.documents.workflows import snakemake

            return snakemake.read
    from gpulint.documents.workflows import makefile, snakemake

    return lambda source, models: (snakemake if _is_snakefile(source.text) else makefile).read(source, models)


def _is_snakefile(text: str) -> bool:
    return any(line.startswith(("rule ", "checkpoint ", "configfile:")) for line in text.splitlines())
