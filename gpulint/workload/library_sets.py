"""What data sets of libraries that are known do for each sample."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.libraries import Models
from gpulint.libraries.names import matches
from gpulint.placement.inner_sets import LAZY
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import NodeRef, last_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpulint.project import Project

MEMORY = "memory"
"""The kind of the data sets that hold their samples."""


class _Rows:
    def __init__(self, models: Models) -> None:
        self.sets = tuple((row.classes, row.kind) for row in models.rows("sample-set"))


def kinds_of(project: Project, names: Iterable[str]) -> set[str]:
    """Return the kinds of work of the data sets of some names, one for each that is known, with ``MEMORY``."""
    rows = project.models.derived(_Rows).sets
    found = (next((kind for classes, kind in rows if matches(classes, (name,))), None) for name in names)
    return {kind for kind in found if kind is not None}


def of_library(project: Project, made: NodeRef) -> set[str]:
    """Return the kinds of work of what a call makes, none if it holds its samples in memory or is unknown."""
    if not isinstance(made.node, ast.Call):
        return set()
    if last_name(made.node.func) in LAZY and made.node.args:
        return {"transform"}
    return kinds_of(project, project.fact(Resolver).call_names(made.module, made.node)) - {MEMORY}


def of_bases(project: Project, owner: NodeRef) -> set[str]:
    """Return the kinds of work of the bases of a class, as ``of_library``."""
    assert isinstance(owner.node, ast.ClassDef)
    return kinds_of(project, project.fact(Resolver).base_names(owner.module, owner.node)) - {MEMORY}
