"""One circumstance in which a finding costs less."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulint.records import dataclass

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject

TO_LOW = 2
"""Levels that lead from high to low."""
AT_START = frozenset({"install", "data-copy", "idle-gpus", "hidden-gpus", "interactive", "pause", "idle-host-phase"})
"""Kinds of cost of a job before or beside its training."""


@dataclass(frozen=True, slots=True)
class Circumstance:
    """Why a finding costs less, by how many levels, and whether it holds; of some kinds of cost only, if any."""

    phrase: str
    levels: int
    holds: Callable[[Subject], bool]
    kinds: frozenset[str] = frozenset()
    not_kinds: frozenset[str] = frozenset()
