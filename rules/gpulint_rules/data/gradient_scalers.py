"""Scalers of gradients, for whose overflow test the host waits in each step."""

from __future__ import annotations

import ast

from gpulint.documents.call_syntax import keyword_value
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex


def scales_in_half_precision(project: Project, module: ModuleIndex, owner: ast.expr) -> bool:
    """``Accelerator(mixed_precision="fp16")``, whose optimizers wait for a scaler of gradients."""
    for ref in project.fact(Resolver).points_to(module, owner):
        precision = keyword_value(ref.node, "mixed_precision") if isinstance(ref.node, ast.Call) else None
        if precision is not None and project.fact(Constants).of(ref.module, precision).every(lambda one: one == "fp16"):
            return True
    return False


def is_disabled(project: Project, module: ModuleIndex, scaler: ast.expr) -> bool:
    """Return whether all that a scaler may be is made with ``enabled=False``."""
    made = [ref for ref in project.fact(Resolver).points_to(module, scaler) if isinstance(ref.node, ast.Call)]
    given = [
        project.fact(Constants).of(ref.module, keyword.value)
        for ref in made
        if isinstance(ref.node, ast.Call)
        for keyword in ref.node.keywords
        if keyword.arg == "enabled"
    ]
    return bool(given) and len(given) == len(made) and all(known.every(lambda value: not value) for known in given)
