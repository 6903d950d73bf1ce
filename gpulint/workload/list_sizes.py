"""Whether a list holds all samples that there are, or a few."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex


def is_unbounded(project: Project, module: ModuleIndex, source: ast.expr) -> bool:
    """Return whether nothing says that a list holds a few items: no display, no slice."""
    origins = [ref.node for ref in project.fact(Resolver).points_to(module, source)]
    return not any(
        (isinstance(node, ast.List | ast.Tuple | ast.Set) and node.elts)
        or isinstance(node, ast.Dict)
        or (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice))
        for node in origins
    )


def is_batch(module: ModuleIndex, source: ast.expr) -> bool:
    """Return whether a list is one batch of a data set (``names = data.get_batch(8)``)."""
    bindings = module.scope(source).lookup(source.id) if isinstance(source, ast.Name) else []
    values = (binding.value for binding in reaching(module, bindings, source))
    return any(isinstance(value, ast.Call) and "batch" in ast.unparse(value) for value in values)
