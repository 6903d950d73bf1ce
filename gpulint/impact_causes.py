"""Findings that one repair ends, such as the waits of one training loop, are one finding."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gpulint.finding import Finding, Place
from gpulint.fix import Fix
from gpulint.impact import Level
from gpulint.project import Project
from gpulint.report import Result

REPAIRED_TOGETHER = {
    "host-wait": "waits", "host-tensor": "waits", "allocator-flush": "cache", "gradients": "gradients"
}  # fmt: skip
"""Costs of which it pays only to repair all of a cause, and with which others: a loop that still waits elsewhere is as
slow."""
_WHAT = {"host-wait": "waits for the GPU", "host-tensor": "a tensor is made on the host"}
"""What is at a place that another finding names which is about something else."""
IN_COPIES = "also in "
"""What the basis of a finding says where other files have the same code."""
MOST = 6
"""Most other lines that a finding names."""


def fold_causes(results: Sequence[Result], project: Project) -> list[Result]:
    """``results`` in their order; of those with one cause that are worth repairing together, one keeps its impact and
    names the others, which have low impact."""
    groups: dict[object, list[int]] = {}
    for number, result in enumerate(results):
        finding = result.finding
        if finding.cause is None or finding.impact.level == Level.LOW or finding.rule.cost is None:
            continue
        if finding.rule.cost.kind in REPAIRED_TOGETHER:
            cause = finding.cause
            together = REPAIRED_TOGETHER[finding.rule.cost.kind]
            groups.setdefault((cause.path, cause.span, together), []).append(number)
    found = list(results)
    for numbers in groups.values():
        if len(numbers) > 1:
            _fold(found, numbers, project)
    return found


def _fold(found: list[Result], numbers: Sequence[int], project: Project) -> None:
    weights = dict.fromkeys((_kind(found[number]) for number in numbers), 0.0)
    for number in numbers:
        weights[_kind(found[number])] += found[number].finding.impact.own
    leader = min(numbers, key=lambda number: _rank(found[number], weights[_kind(found[number])], number))
    first = found[leader].finding
    others = [number for number in numbers if number != leader]
    place = f"{project.place(first.path)}:{first.span.line}"
    copies = _copies(found, leader, others)
    for number in others:
        found[number] = _changed(found[number], f"one repair with {place}", level=Level.LOW)
    kinds = sorted({_kind(found[number]) for number in others}, key=lambda kind: (kind != _kind(found[leader]), kind))
    places, parts = list[Place](), list[str]()
    for kind in kinds:
        what = "" if kind == _kind(found[leader]) else _WHAT.get(kind, kind)
        same = [number for number in others if _kind(found[number]) == kind]
        said = f"{what}, too" if what else "as well"
        places += (Place(found[number].finding.path, found[number].finding.span, said) for number in same)
        lines = _also(found, same, first, project)
        parts.append(f"{what} {lines.removeprefix('also ').replace('line', 'in line', 1)}" if what else lines)
    found[leader] = _changed(found[leader], ", ".join([*parts, *copies]), tuple(places))


def _copies(found: Sequence[Result], leader: int, others: Sequence[int]) -> list[str]:
    """``also in other.py``: which file has copies of what goes into one finding, where its leader does not name any."""
    said = [
        [part for part in found[number].finding.impact.basis.split(", ") if part.startswith(IN_COPIES)]
        for number in (leader, *others)
    ]
    return next(filter(None, said[1:]), [])[:1] if not said[0] else []


def _kind(result: Result) -> str:
    cost = result.finding.rule.cost
    return cost.kind if cost is not None else ""


def _rank(result: Result, weight: float, number: int) -> tuple[int, int, float, float, bool, int]:
    """Those that cost most first, then the surest, then those of the kind that there is most of, then those of which
    the place has most, then those with a fix, in the order of the report."""
    finding, fixed = result.finding, isinstance(result.fix, Fix)
    return -finding.impact.level, -finding.severity, -weight, -finding.impact.own, not fixed, number


def _also(found: Sequence[Result], others: Sequence[int], first: Finding, project: Project) -> str:
    """``also lines 98 and 104``; places in other files with their path."""
    here = sorted({found[number].finding.span.line for number in others if found[number].finding.path == first.path})
    there = sorted(
        {
            f"{project.place(found[number].finding.path)}:{found[number].finding.span.line}"
            for number in others
            if found[number].finding.path != first.path
        }
    )
    lines = [str(line) for line in here if line != first.span.line]
    names = [*lines, *there]
    if not names:
        return "also in the same line"
    if len(names) > MOST:
        names[MOST:] = [f"{len(names) - MOST} more"]
    text = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"also {'at' if not lines else 'line' if len(lines) == 1 else 'lines'} {text}"


def _changed(result: Result, said: str, places: tuple[Place, ...] = (), *, level: Level | None = None) -> Result:
    finding = result.finding
    basis = f"{finding.impact.basis}, {said}" if finding.impact.basis else said
    impact = dataclasses.replace(finding.impact, level=finding.impact.level if level is None else level, basis=basis)
    return dataclasses.replace(
        result, finding=dataclasses.replace(finding, impact=impact, related=(*finding.related, *places))
    )
