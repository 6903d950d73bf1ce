"""gpulint's own fixers, one module each, in one folder per dimension; registered like any third-party plugin."""

from __future__ import annotations

from collections.abc import Iterable

from gpulint import catalogue
from gpulint.fix import Fixer
from gpulint.hooks import hookimpl


@hookimpl
def gpulint_fixers() -> Iterable[Fixer]:
    """The fixers of the modules in the dimension folders."""
    return catalogue.fixers(__name__, __path__)
