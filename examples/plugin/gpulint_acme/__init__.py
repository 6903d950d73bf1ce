"""gpulint rules for the cluster of ACME."""

from __future__ import annotations

from gpulint.fix import Fixer
from gpulint.hooks import hookimpl
from gpulint.rule import Rule

from gpulint_acme import home_folder, no_time_limit


@hookimpl
def gpulint_rules() -> list[Rule]:
    return [home_folder.RULE, no_time_limit.RULE]


@hookimpl
def gpulint_fixers() -> list[Fixer]:
    return [no_time_limit.FIXER]
