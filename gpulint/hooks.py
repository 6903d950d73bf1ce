"""Plugin hooks. They serve registration only: a pluggy call is far too slow to make per node."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from gpulint.fix import Fixer
    from gpulint.rule import Rule

hookspec = pluggy.HookspecMarker("gpulint")
hookimpl = pluggy.HookimplMarker("gpulint")


@hookspec
def gpulint_rules() -> Iterable[Rule]:
    """The rules that a plugin brings."""
    raise NotImplementedError


@hookspec
def gpulint_fixers() -> Iterable[Fixer]:
    """The fixers that a plugin brings."""
    raise NotImplementedError


@hookspec
def gpulint_commands(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add sub-commands; each sets ``run``: ``parser.set_defaults(run=callable(args) -> exit code)``."""
