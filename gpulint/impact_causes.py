"""Findings that one repair ends, such as the waits of one training loop, are one finding."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gpulint import regex
from gpulint.finding import Finding, Place
from gpulint.fix import Fix, changes
from gpulint.impact import Level
from gpulint.project import Project
from gpulint.report import Result

REPAIRED_TOGETHER = frozenset({"allocator-flush", "gradients", "host-wait"})
"""Costs of which it pays only to repair all of a cause: a loop that still waits elsewhere is as slow."""
IN_COPIES = "also in "
"""What the basis of a finding says where other files have the same code."""
SAME_CODE, SAME_LOOP = "the same code", "in a copy of the loop"
"""What is said of places in other files that a finding stands for."""
BESIDE = "gradients are enabled here as well"
"""What a rule says of another place of the same function that is changed by itself, and may have low impact."""
_COUNTED = regex.compile(r"\b\d{1,9} waits\b")
"""What the basis of a finding says where it counts the places of its file."""
_NAMED = regex.compile(r"\bline (\d{1,9}) waits\b")
_IS_COPY = regex.compile(rf"\b(?:{SAME_CODE} as|{SAME_LOOP} around) ")
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
            groups.setdefault((cause.path, cause.span, finding.rule.cost.kind), []).append(number)
    found = list(results)
    for numbers in groups.values():
        leader = min(numbers, key=lambda number: _rank(found[number], number))
        kept = _kept(results, leader) if _COUNTED.search(found[leader].finding.impact.basis) else []
        if len(numbers) > 1:
            _fold(found, leader, numbers, project)
        if kept:
            lines = f"line{'s' if len(kept) > 1 else ''} {_joined([*map(str, kept)])}"
            found[leader] = _changed(found[leader], f"also {lines} of low impact")
    return _without_shown(found)


def _kept(results: Sequence[Result], leader: int) -> list[int]:
    """Return the other lines of the leader's file that wait in the same loop and have low impact by themselves: they
    are counted as well. A line that the basis names is left out."""
    first = results[leader].finding
    lines = {
        one.finding.span.line
        for one in results
        if one.finding.rule is first.rule
        and one.finding.path == first.path
        and one.finding.cause == first.cause
        and one.finding.impact.level == Level.LOW
        and not _IS_COPY.search(one.finding.impact.basis)
    }
    named = {int(line) for line in _NAMED.findall(first.impact.basis)}
    return sorted(lines - named - {first.span.line})[:MOST]


def _without_shown(results: list[Result]) -> list[Result]:
    """Take places beside a finding out of it that findings of their own name, so that those of low impact stay."""
    shown = {
        (one.finding.rule.code, one.finding.path, one.finding.span)
        for one in results
        if one.finding.impact.level > Level.LOW
    }
    found = list(results)
    for number, result in enumerate(results):
        finding = result.finding
        named = [place for place in finding.related if place.message == BESIDE]
        if not named:
            continue
        hidden = [one for one in named if (finding.rule.code, one.path, one.span) not in shown]
        places = (*(place for place in finding.related if place.message != BESIDE), *hidden[:MOST])
        found[number] = dataclasses.replace(result, finding=dataclasses.replace(finding, related=places))
    return found


def _fold(found: list[Result], leader: int, numbers: Sequence[int], project: Project) -> None:
    first = found[leader].finding
    others = [number for number in numbers if number != leader]
    place = f"{project.place(first.path)}:{first.span.line}"
    copies = _copies(found, leader, others)
    for number in others:
        found[number] = _changed(found[number], f"one repair with {place}", level=Level.LOW)
    places = tuple(Place(found[number].finding.path, found[number].finding.span, "as well") for number in others)
    copied = [place for number in others for place in found[number].finding.related if is_copy(place)]
    places += tuple(copied[: max(MOST - sum(map(is_copy, first.related)), 0)])
    found[leader] = _with_fix(found[leader], [found[number] for number in others], project)
    found[leader] = _changed(found[leader], ", ".join([_also(found, others, first, project), *copies]), places)


def _with_fix(result: Result, others: Sequence[Result], project: Project) -> Result:
    """Return a finding with the fix of one of the places that it names, where it has none itself: ``gpulint fix``
    changes those as well."""
    fixed = next((one for one in others if changes(one.fix)), None)
    if changes(result.fix) or fixed is None or not isinstance(fixed.fix, Fix):
        return result
    line, path = fixed.finding.span.line, fixed.finding.path
    where = f"line {line}" if path == result.finding.path else f"{project.place(path)}:{line}"
    fix = dataclasses.replace(fixed.fix, description=f"in {where}: {fixed.fix.description}")
    return dataclasses.replace(result, fix=fix)


def is_copy(place: Place) -> bool:
    """Return whether a place is one in another file that a finding stands for."""
    return place.message in (SAME_CODE, SAME_LOOP)


def with_copies(result: Result, copies: Sequence[Finding], said: str) -> Result:
    """Add places in other files that a finding stands for, up to ``MOST`` in all."""
    finding = result.finding
    places = [Place(one.path, one.span, said) for one in copies]
    more = places[: max(MOST - sum(map(is_copy, finding.related)), 0)]
    return dataclasses.replace(result, finding=dataclasses.replace(finding, related=(*finding.related, *more)))


def _copies(found: Sequence[Result], leader: int, others: Sequence[int]) -> list[str]:
    """``also in other.py``: which file has copies of what goes into one finding, where its leader does not name any."""
    said = [
        [part for part in found[number].finding.impact.basis.split(", ") if part.startswith(IN_COPIES)]
        for number in (leader, *others)
    ]
    return next(filter(None, said[1:]), [])[:1] if not said[0] else []


def _rank(result: Result, number: int) -> tuple[int, int, float, bool, int]:
    """Those that cost most first, then the surest, then those of which the place has most, then those with a fix, in
    the order of the report."""
    finding, fixed = result.finding, isinstance(result.fix, Fix)
    return -finding.impact.level, -finding.severity, -finding.impact.own, not fixed, number


def _also(found: Sequence[Result], others: Sequence[int], first: Finding, project: Project) -> str:
    """Return ``also lines 98 and 104``; places in other files with their path."""
    here = sorted({found[number].finding.span.line for number in others if found[number].finding.path == first.path})
    there = sorted(
        {
            f"{project.place(found[number].finding.path)}:{found[number].finding.span.line}"
            for number in others
            if found[number].finding.path != first.path
        }
    )
    lines = [str(line) for line in here if line != first.span.line]
    if not lines and not there:
        return "also in the same line"
    lines, more = lines[:MOST], len(lines[MOST:])
    there, further = there[: MOST - len(lines)], len(there[MOST - len(lines) :])
    said = [f"also {'line' if len(lines) == 1 and not more else 'lines'} {_joined(lines, more)}"] if lines else []
    if there or further:
        # A count of waits is of one file.
        elsewhere = _joined(there, further) if there else f"{further} more places"
        said.append(f"also {'in another file at' if lines else 'at'} {elsewhere}")
    return ", ".join(said)


def _joined(names: Sequence[str], more: int = 0) -> str:
    """``3, 4 and 5``, or ``3, 4 and 2 more``."""
    listed = [*names, f"{more} more"] if more else [*names]
    return " and ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)


def _changed(result: Result, said: str, places: tuple[Place, ...] = (), *, level: Level | None = None) -> Result:
    finding = result.finding
    basis = f"{finding.impact.basis}, {said}" if finding.impact.basis else said
    impact = dataclasses.replace(finding.impact, level=finding.impact.level if level is None else level, basis=basis)
    return dataclasses.replace(
        result, finding=dataclasses.replace(finding, impact=impact, related=(*finding.related, *places))
    )
