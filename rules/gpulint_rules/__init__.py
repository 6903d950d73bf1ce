"""gpulint's own rules, one module each, in one folder per dimension; registered like any third-party plugin."""

from __future__ import annotations

from collections.abc import Iterable

from gpulint import catalogue
from gpulint.hooks import Failure, hookimpl
from gpulint.rule import Rule


@hookimpl
def gpulint_rules() -> Iterable[Rule | Failure]:
    """The rules of the modules in the dimension folders; ``scripts/generate_docs.py`` writes their catalogue."""
    return catalogue.rules(__name__, __path__)
