"""What findings cost: how often the waste happens, how much each time, on how many GPUs; and which jobs hold GPUs.

Rules say what kind of waste a finding is (:class:`gpulint.impact.Cost`). Nothing here knows a rule by its code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.finding import Finding
    from gpulint.impact import Impact
    from gpulint.project import Project


def impact_of(finding: Finding, project: Project) -> Impact:
    """Return what a finding costs."""
    from gpulint.assessment.assessor import assess

    return assess(finding, project)


def programs_without(finding: Finding, project: Project) -> tuple[Path, ...]:
    """Return the programs of jobs that import the file of a finding, but do not get to its place, and the files of jobs
    that start it with options which do not."""
    from gpulint.assessment.unreached_launches import launchers_without
    from gpulint.assessment.unreached_programs import unreached_programs

    return (*unreached_programs(project, finding), *launchers_without(project, finding))
