"""Findings whose gain is small, and that a person has to repair by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gpulint.fix import Declined, Fix
from gpulint.impact import Level
from gpulint.report import Result

BY_HAND = "no fix is offered"
"""What the basis of such a finding says."""


def lower_by_hand(results: Sequence[Result]) -> list[Result]:
    """``results`` in their order; those of a small gain are one level lower where no fix is offered for them, nor for
    another place of their cause. Where fixes were not asked for, nothing changes."""
    repaired = {_cause(result) for result in results if isinstance(result.fix, Fix)}
    return [
        _lowered(result) if _is_by_hand(result) and _cause(result) not in repaired else result for result in results
    ]


def _cause(result: Result) -> object:
    finding = result.finding
    place = finding.cause
    return finding.rule.code, (place.path, place.span) if place is not None else (finding.path, finding.span)


def _is_by_hand(result: Result) -> bool:
    impact = result.finding.impact
    return impact.small and impact.level > Level.LOW and isinstance(result.fix, Declined)


def _lowered(result: Result) -> Result:
    impact = result.finding.impact
    basis = f"{impact.basis}, {BY_HAND}" if impact.basis else BY_HAND
    impact = dataclasses.replace(impact, level=Level(impact.level - 1), basis=basis)
    return dataclasses.replace(result, finding=dataclasses.replace(result.finding, impact=impact))
