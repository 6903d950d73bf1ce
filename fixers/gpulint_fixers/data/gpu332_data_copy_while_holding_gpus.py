"""Move copies and preparing programs into a stage before the job; what has to be on its own disk, run side by side."""

from __future__ import annotations

from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, Fixer
from gpulint.project import Project
from gpulint.rule import Kind
from gpulint_fixers.stages.split import holder, split
from gpulint_fixers.stages.together import ALONE, together


def fix(finding: Finding, project: Project) -> Fix | Declined:
    staged = split(finding, project)
    document = project.document(finding.path)
    if isinstance(staged, Fix) or document is None or document.kind is not Kind.SHELL:
        return staged
    job = holder(project, document)
    beside = together(project, document, job, finding.span) if job is not None else staged
    if isinstance(beside, Fix) or beside in (staged, Declined(ALONE)):
        return beside if isinstance(beside, Fix) else staged
    return Declined(f"{staged.reason}; nor can it run beside the others: {beside.reason}")


FIXER = Fixer("GPU332", fix)
