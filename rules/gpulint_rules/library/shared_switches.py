"""Switches for a whole process that a program sets in several places: taking out one of them alone changes nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.finding import Place
from gpulint.records import dataclass
from gpulint_rules.library.cudnn_layers import MAX_PROGRAMS, programs_of

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

MAX_SWITCHES = 60
"""Most switches that are compared."""


@dataclass(frozen=True, slots=True)
class Switch:
    """What switches a mode on, and the programs that run it: a statement of theirs, or without a node, a line of what
    starts them."""

    place: Place
    node: ast.AST | None
    programs: frozenset[Path]

    def shares(self, other: Switch) -> bool:
        """Return whether some run of a program meets both: one script of several starts it."""
        may_meet = self.node is not None or other.node is not None or self.place.path == other.place.path
        return may_meet and not self.programs.isdisjoint(other.programs)

    def runs_wherever(self, other: Switch) -> bool:
        """Return whether each program that runs the other one runs this one as well."""
        return other.programs <= self.programs


def switch(project: Project, module: ModuleIndex, node: ast.expr | ast.stmt) -> Switch:
    """Return a switch with its programs; with none if these are too many to tell."""
    found = frozenset(programs_of(project, module, node))
    place = Place(module.path, module.syntax.span(node))
    return Switch(place, node, found if len(found) <= MAX_PROGRAMS else frozenset())


def grouped(switches: Iterable[Switch]) -> list[list[Switch]]:
    """Return the switches of several places, those that share programs together, also by way of others."""
    groups: list[list[Switch]] = []
    for one in sorted(switches, key=lambda one: (one.place.path, one.place.span.line))[:MAX_SWITCHES]:
        near = [group for group in groups if any(one.shares(other) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([*(other for group in near for other in group), one])
    return [group for group in groups if len(group) > 1]


def beside(own: Switch, group: Sequence[Switch]) -> tuple[Switch, ...]:
    """Return the other switches that run in programs of one of them."""
    return tuple(one for one in group if one != own and one.shares(own))
