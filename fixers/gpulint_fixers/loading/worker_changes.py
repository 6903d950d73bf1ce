"""Fixes that give workers to several loaders at once, and what they say of them."""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path
from typing import NamedTuple

from gpulint.finding import Finding
from gpulint.fix import Edit, Fix, Safety
from gpulint.impact_causes import SET_TOO
from gpulint.project import Project
from gpulint.training.loader_calls import Loader
from gpulint_fixers.loading.random_order import OTHER_ORDER


class WorkerChange(NamedTuple):
    """Workers for one loader, and what a description has to say of all loaders that the edits give workers."""

    why: str
    edits: tuple[Edit, ...]
    drawing: bool
    """One of them may make its samples with random numbers."""
    lasting: bool
    """The workers stay alive between epochs."""
    shuffled: bool
    """One of them shuffles its samples anew for each of several epochs."""
    notes: tuple[str, ...]

    def stays_in(self, files: Set[Path]) -> bool:
        """Return whether all edits are in some files."""
        return all(edit.path in files for edit in self.edits)


def together(changes: list[WorkerChange]) -> Fix:
    """Return the fix that changes several loaders, of which the first was asked for. It says what workers change of
    random numbers: those of the samples, and the order, as lasting workers, and samples that draw no more, leave other
    numbers to it."""
    drawing, lasting = any(one.drawing for one in changes), any(one.lasting for one in changes)
    said = [*(["have their own random states"] if drawing else []), *(["stay alive"] if lasting else [])]
    order = f", so {OTHER_ORDER}" if said and any(one.shuffled for one in changes) else ""
    which = f", which {' and '.join(said)}{order}" if said else ""
    notes = "".join(dict.fromkeys(note for one in changes for note in one.notes))
    edits = tuple(dict.fromkeys(edit for one in changes for edit in one.edits))
    return Fix(f"load with workers ({changes[0].why}){which}{notes}", Safety.UNSAFE, edits)


def named(loaders: list[Loader]) -> str:
    """Return what is said of several loaders that a fix changes: none may be changed without being named. It is the
    same whichever was asked for."""
    if len(loaders) < 2:
        return ""
    lines = sorted((one.module.syntax.span(one.node).line, one.variable) for one in loaders)
    said = [f"line {line}" + (f" (`{name}`)" if name else "") for line, name in lines]
    return f"; it changes {', '.join(said[:-1])} and {said[-1]}"


def passed_too(finding: Finding, project: Project) -> Iterator[str]:
    """Yield what has to change besides the default of an option: a documented command that passes 0."""
    for place in finding.related:
        if place.message == SET_TOO:
            where = f"{place.path.relative_to(project.root).as_posix()}:{place.span.line}"
            yield f"; {where} passes 0, which has to change as well"
