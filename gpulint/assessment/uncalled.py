"""Functions of modules that no call of the tree is seen to reach, though others may call them once it is installed."""

from __future__ import annotations

from pathlib import Path

from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.source import Span
from gpulint.workspace.module_index import FunctionNode


def is_uncalled(project: Project, path: Path, span: Span) -> bool:
    """Return whether a place is in a function of a module that no other code of the tree calls."""
    module = project.module_at(path) if span.cell is None else None
    if module is None:
        return False
    outer = [
        one
        for one in module.syntax.tree.body
        if isinstance(one, FunctionNode) and one.lineno <= span.line <= (one.end_lineno or one.lineno)
    ]
    return any(not project.fact(Resolver).call_sites(module, one) for one in outer)
