"""The same code in several files, as in scripts copied from each other, is one finding."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.impact import Level

if TYPE_CHECKING:
    from gpulint.finding import Finding
    from gpulint.project import Project
    from gpulint.report import Result

AROUND = 2
"""Lines before and after the finding's that have to be the same as well."""
SHORT = 8
"""Characters up to which a line says little and is passed over."""
LEAST = 100
"""Characters of all these lines together from which on they are no chance."""
_SPACES = regex.compile(r"\s+")
_COMMENT = regex.compile(r"(^|\s)#(?!SBATCH|PBS|BSUB|\$).*$")


def fold_repeats(results: Sequence[Result], project: Project) -> list[Result]:
    """``results`` in their order; a finding whose code also stands in another file with a finding of the same rule has
    low impact, except in the file where it costs most (of several, the first), which names the others."""
    alike: dict[object, list[int]] = {}
    for number, result in enumerate(results):
        if result.finding.impact.level > Level.LOW and (block := _block(result.finding, project)):
            alike.setdefault((result.finding.rule.code, block), []).append(number)
    found = list(results)
    for numbers in alike.values():
        leader = min(numbers, key=lambda number: (-results[number].finding.impact.level, number))
        path = results[leader].finding.path
        others = [number for number in numbers if results[number].finding.path != path]
        if not others:
            continue
        place = f"{project.place(path)}:{results[leader].finding.span.line}"
        for number in others:
            found[number] = _with_basis(results[number], f"the same code as {place}", Level.LOW)
        paths = list(dict.fromkeys(project.place(results[number].finding.path) for number in others))
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        found[leader] = _with_basis(results[leader], f"also in {paths[0]}{more}", None)
    return found


def _with_basis(result: Result, said: str, level: Level | None) -> Result:
    impact = result.finding.impact
    basis = f"{impact.basis}, {said}" if impact.basis else said
    impact = dataclasses.replace(impact, level=impact.level if level is None else level, basis=basis)
    return dataclasses.replace(result, finding=dataclasses.replace(result.finding, impact=impact))


def _block(finding: Finding, project: Project) -> tuple[str, ...]:
    """The finding's line and those around it without what says nothing; empty if that is too little to compare."""
    document = project.document(finding.path)
    if document is None:
        return ()
    source, line = document.cell_source(finding.span.cell), finding.span.line
    own = _plain(source.line(line))
    above = _significant(source.line(number) for number in range(line - 1, 0, -1))
    below = _significant(source.line(number) for number in range(line + 1, len(source.line_starts) + 1))
    block = (*reversed(above), own, *below)
    return block if sum(map(len, block)) >= LEAST else ()


def _significant(lines: Iterable[str]) -> list[str]:
    found: list[str] = []
    for line in lines:
        if len(text := _plain(line)) > SHORT:
            found.append(text)
            if len(found) == AROUND:
                break
    return found


def _plain(line: str) -> str:
    return _SPACES.sub(" ", _COMMENT.sub("", line)).strip()
