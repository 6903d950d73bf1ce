"""gpulint rules for the cluster of ACME."""

from __future__ import annotations

from gpulint.fix import Fixer
from gpulint.hooks import hookimpl
from gpulint.rule import Rule

from gpulint_acme import no_time_limit


@hookimpl
def gpulint_rules() -> list[Rule]:
    return [no_time_limit.RULE]


@hookimpl
def gpulint_fixers() -> list[Fixer]:
    return [no_time_limit.FIXER]
