"""The names by which a package is known at a place of a module."""

from __future__ import annotations

import ast

from gpulint.workspace.module_index import ModuleIndex


def package_name(module: ModuleIndex, package: str, node: ast.AST | None = None) -> str | None:
    """Return how a module names a package where ``node`` is, which its function may import above it; without a node,
    how its own statements name it. None where it has no name there, or where the name may be of something else."""
    for name in dict.fromkeys((package, *_names(module, package))):
        scope = module.top if node is None else module.scope(node)
        bound = scope.lookup(name)
        if not bound or any(one.target.partition(".")[0] != package for one in bound):
            continue
        whole = [one for one in bound if one.target == package]
        if any(node is None or one.scope is module.top or _is_above(one.node, node) for one in whole):
            return name
    return None


def _names(module: ModuleIndex, package: str) -> list[str]:
    """The other names that imports of a module give to a package, in order."""
    nodes = (one.node for one in module.imports if one.target == package and isinstance(one.node, ast.Import))
    return [part.asname for node in nodes for part in node.names if part.name == package and part.asname]


def _is_above(imported: ast.AST, node: ast.AST) -> bool:
    return getattr(imported, "lineno", 0) < getattr(node, "lineno", 0)
