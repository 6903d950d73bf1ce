"""Findings that one repair ends, such as the waits of one training loop, are one finding."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from gpulint import regex
from gpulint.finding import Finding, Place
from gpulint.fix import Fix, changes
from gpulint.impact import Level
from gpulint.project import Project
from gpulint.report import Result
from gpulint.source import Span, in_words, joined

REPAIRED_TOGETHER = frozenset({"allocator-flush", "gradients", "host-wait"})
"""Costs of which it pays only to repair all of a cause: a loop that still waits elsewhere is as slow."""
IN_COPIES = "also in "
"""What the basis of a finding says where other files have the same code."""
SAME_CODE, SAME_LOOP, SAME_SWITCH = "the same code", "in a copy of the loop", "the same switch"
"""What is said of places in other files that a finding stands for."""
SET_TOO = "the documented command passes 0 too"
"""What is said of a command without which another default changes nothing: of places with one cause, those without one
lead."""
AS_WELL = "as well"
"""What is said of other places with the same cause."""
BESIDE = "gradients are enabled here as well"
"""What a rule says of another place of the same function that is changed by itself, and may have low impact."""
ON_GPU = "assuming that the value is on the GPU"
"""Said of reads in functions that the loop calls where nothing tells what the value comes from, which are counted with
no others: readers thanked for 2 of 11 such findings, and 6 were wrong (benchmarks/verdicts/usefulness)."""
_COUNTED = regex.compile(r"\b\d{1,9} waits\b")
"""What the basis of a finding says where it counts the places of its file."""
_WHERE = r"((?:cell \d{1,9}, )?line \d{1,9}|[^,`]{1,300}:(?:cell \d{1,9}:)?\d{1,9})"
_ANYWAY = regex.compile(rf"(?:^|, ){_WHERE} waits (in any case)\b")
"""What the basis of a finding says of a place that makes each round wait whatever is done."""
_AS_WELL = regex.compile(rf"(?:^|, ){_WHERE} waits as well( \((`[^`]*`|an assertion on a tensor)\))?")
_IS_COPY = regex.compile(rf"\b(?:{SAME_CODE} as|{SAME_SWITCH} as|{SAME_LOOP} around) ")
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
    results = _as_fixed(results, project)
    found = list(results)
    for numbers in groups.values():
        leader = min(numbers, key=lambda number: _rank(found[number], number))
        kept = _kept(results, leader) if _COUNTED.search(found[leader].finding.impact.basis) else []
        if len(numbers) > 1:
            _fold(found, leader, numbers, project)
        if kept:
            found[leader] = _changed(found[leader], f"the count includes {in_words(kept)}")
    return _without_shown(found)


def _kept(results: Sequence[Result], leader: int) -> list[Span]:
    """Return the other lines of the leader's file that wait in the same loop and have low impact by themselves: they
    are counted as well. A line that the basis names is left out."""
    first = results[leader].finding
    lines = [
        one.finding.span
        for one in results
        if one.finding.rule is first.rule
        and one.finding.path == first.path
        and one.finding.cause == first.cause
        and one.finding.impact.level == Level.LOW
        and not _IS_COPY.search(one.finding.impact.basis)
        and ON_GPU not in one.finding.impact.basis
        and f"{one.finding.span.words} waits " not in first.impact.basis
    ]
    return _by_line(lines, first.span)[:MOST]


def _by_line(spans: Iterable[Span], leading: Span) -> list[Span]:
    """Return one span for each line, in order, but for that of ``leading``."""
    found = {(-1 if one.cell is None else one.cell, one.line): one for one in spans if one.mark != leading.mark}
    return [found[key] for key in sorted(found)]


def _waits_anyway(first: Finding, other: Finding) -> bool:
    """Return whether a finding says that the place of another one waits in any case, so that it is none to repair."""
    return first.path == other.path and f"{other.span.words} waits in any case" in first.impact.basis


def _as_fixed(results: Sequence[Result], project: Project) -> list[Result]:
    """Say of a place that it ``waits as well``, not in any case, where a fix ends that wait."""
    repaired = [(one.finding.rule, one.finding.path, one.finding.span) for one in results if changes(one.fix)]
    fixed = {(rule.code, path, span.words) for rule, path, span in repaired}
    fixed_at = {(rule.code, f"{project.place(path)}:{span.mark}") for rule, path, span in repaired}
    found = list(results)
    for number, result in enumerate(results):
        basis = result.finding.impact.basis
        match = _ANYWAY.search(basis)
        code, path = result.finding.rule.code, result.finding.path
        if match is not None and ((code, path, match[1]) in fixed or (code, match[1]) in fixed_at):
            found[number] = _with_basis(result, f"{basis[: match.start(2)]}as well{basis[match.end(2) :]}")
    return found


def _without_clause(result: Result, others: Sequence[Finding]) -> Result:
    """Return a finding whose basis does not say of places that it names otherwise that they wait as well."""
    basis = result.finding.impact.basis
    listed = {one.span.words for one in others if one.path == result.finding.path}
    match = _AS_WELL.search(basis)
    if match is None or match[1] not in listed:
        return result
    return _with_basis(result, basis[: match.start()] + basis[match.end() :])


def _with_basis(result: Result, basis: str) -> Result:
    finding = result.finding
    impact = dataclasses.replace(finding.impact, basis=basis)
    return dataclasses.replace(result, finding=dataclasses.replace(finding, impact=impact))


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
    place = f"{project.place(first.path)}:{first.span.mark}"
    copies = _copies(found, leader, others)
    for number in others:
        found[number] = _changed(found[number], f"one repair with {place}", level=Level.LOW)
    named = (found[number].finding for number in others)
    places = tuple(Place(one.path, one.span, AS_WELL) for one in named if not _waits_anyway(first, one))
    copied = [place for number in others for place in found[number].finding.related if is_copy(place)]
    places += tuple(copied[: max(MOST - sum(map(is_copy, first.related)), 0)])
    found[leader] = _with_fix(found[leader], [found[number] for number in others], project)
    also = _also(found, others, first, project)
    found[leader] = _without_clause(found[leader], [found[number].finding for number in others])
    found[leader] = _in_order(_changed(found[leader], ", ".join(filter(None, [also, *copies])), places))


def _in_order(result: Result) -> Result:
    """Return a finding with the places that it stands for in the order of their lines, first those with its cause."""
    related = result.finding.related
    listed = [place for place in related if place.message == AS_WELL or is_copy(place)]
    listed.sort(
        key=lambda place: (is_copy(place), place.path, place.span.cell or 0, place.span.line, place.span.column)
    )
    others = (place for place in related if place not in listed)
    return dataclasses.replace(result, finding=dataclasses.replace(result.finding, related=(*others, *listed)))


def _with_fix(result: Result, others: Sequence[Result], project: Project) -> Result:
    """Return a finding with the fix of one of the places that it names, where it has none itself: ``gpulint fix``
    changes those as well."""
    fixed = next((one for one in others if changes(one.fix)), None)
    if changes(result.fix) or fixed is None or not isinstance(fixed.fix, Fix):
        return result
    span, path = fixed.finding.span, fixed.finding.path
    where = span.words if path == result.finding.path else f"{project.place(path)}:{span.mark}"
    fix = dataclasses.replace(fixed.fix, description=f"in {where}: {fixed.fix.description}")
    return dataclasses.replace(result, fix=fix)


def is_copy(place: Place) -> bool:
    """Return whether a place is one in another file that a finding stands for."""
    return place.message in (SAME_CODE, SAME_LOOP, SAME_SWITCH)


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
    same = [found[number].finding for number in others if found[number].finding.path == first.path]
    here = _by_line((one.span for one in same if not _waits_anyway(first, one)), first.span)
    there = sorted(
        {
            f"{project.place(found[number].finding.path)}:{found[number].finding.span.mark}"
            for number in others
            if found[number].finding.path != first.path
        }
    )
    if not here and not there:
        return "also in the same line" if any(one.span.mark == first.span.mark for one in same) else ""
    lines, more = here[:MOST], len(here[MOST:])
    there, further = there[: MOST - len(lines)], len(there[MOST - len(lines) :])
    said = [f"also {in_words(lines, more)}"] if lines else []
    if there or further:
        # A count of waits is of one file.
        elsewhere = joined(there, further) if there else f"{further} more places"
        said.append(f"also {'in another file at' if lines else 'at'} {elsewhere}")
    return ", ".join(said)


def _changed(result: Result, said: str, places: tuple[Place, ...] = (), *, level: Level | None = None) -> Result:
    finding = result.finding
    basis = ", ".join(filter(None, [finding.impact.basis, said]))
    impact = dataclasses.replace(finding.impact, level=finding.impact.level if level is None else level, basis=basis)
    return dataclasses.replace(
        result, finding=dataclasses.replace(finding, impact=impact, related=(*finding.related, *places))
    )
