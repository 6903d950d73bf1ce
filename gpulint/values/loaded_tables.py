"""Tables that a program reads from files (``yaml.safe_load(file)``)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_LOADS = frozenset({"load", "safe_load", "full_load", "loads"})


def is_loaded(project: Project, module: ModuleIndex, base: ast.expr) -> bool:
    """Return whether a table is what a file holds, and gets no options of the command line beside
    (``config.update(vars(args))``)."""
    origins = project.fact(Resolver).points_to(module, base)
    loads = [isinstance(one.node, ast.Call) and last_name(one.node.func) in _LOADS and not one.path for one in origins]
    return (
        bool(loads)
        and all(loads)
        and not any(
            isinstance(call.func, ast.Attribute) and last_name(call.func.value) == last_name(base)
            for call in module.calls_by_name.get("update", ())
        )
    )
