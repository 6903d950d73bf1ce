"""Pass ``non_blocking=True`` to the transfers of a statement, and pin the loaders that feed them."""

from __future__ import annotations

from gpulint_rules.data.gpu302_blocking_transfer import Blocking

from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, Fixer
from gpulint.project import Project
from gpulint_fixers.loading.async_copies import together
from gpulint_fixers.loading.pinning import cautious


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Make the copies asynchronous. Safe if all their loaders pin memory, or do so after the same fix, and none is told
    not to."""
    assert isinstance(finding.payload, Blocking)
    made = together(project, finding.payload)
    return made if isinstance(made, Declined) else cautious(project, made)


FIXER = Fixer("GPU302", fix)
