"""gpulint's own fixers, one module each, in one folder per dimension; registered like any third-party plugin."""

from __future__ import annotations

from collections.abc import Iterable

from gpulint.fix import Fixer
from gpulint.hooks import Failure, hookimpl
from gpulint.plugins import collect


@hookimpl
def gpulint_fixers() -> Iterable[Fixer | Failure]:
    """Every ``FIXER`` of the modules in the dimension folders."""
    return collect(__name__, __path__, "FIXER")
