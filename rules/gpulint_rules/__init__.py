"""gpulint's own rules, one module each, in one folder per dimension; registered like any third-party plugin."""

from __future__ import annotations

from collections.abc import Iterable

from gpulint.hooks import Failure, hookimpl
from gpulint.plugins import collect
from gpulint.rule import Rule


@hookimpl
def gpulint_rules() -> Iterable[Rule | Failure]:
    """Every ``RULE`` of the modules in the dimension folders."""
    return collect(__name__, __path__, "RULE")
