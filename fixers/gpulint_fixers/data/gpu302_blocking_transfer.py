"""Pass ``non_blocking=True`` to the transfers of a statement, and pin the loaders that feed them."""

from __future__ import annotations

from gpulint_rules.data.gpu302_blocking_transfer import Blocking

from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, Fixer
from gpulint.project import Project
from gpulint_fixers.loading.async_copies import together


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Make the copies asynchronous. Safe if all their loaders pin memory, or do so after the same fix."""
    assert isinstance(finding.payload, Blocking)
    return together(project, finding.payload)


FIXER = Fixer("GPU302", fix)
