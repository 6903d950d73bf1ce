"""Classes and functions that no program of the tree uses: neither its code nor its configuration names them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.facts.scopes import FUNCTIONS, FunctionNode, ModuleScopes

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_OWNERS = 3
"""How many classes and functions of a module may use each other without anybody using the last of them."""


def is_unused(project: Project, scopes: ModuleScopes, node: ast.AST) -> bool:
    """Does a node stand in a class, or in a function of the module, that nothing in the tree names?"""
    owner = _owner(scopes, node)
    return owner is not None and not _is_used(project, scopes, owner, MAX_OWNERS)


def _owner(scopes: ModuleScopes, node: ast.AST) -> ast.ClassDef | FunctionNode | None:
    """The innermost class around a node, or else the function of the module that it stands in."""
    if (owner := scopes.class_of(node)) is not None:
        return owner
    functions = [up for up in scopes.module.ancestors(node) if isinstance(up, FUNCTIONS)]
    return functions[-1] if functions else None


def _is_used(project: Project, scopes: ModuleScopes, owner: ast.ClassDef | FunctionNode, depth: int) -> bool:
    name = owner.name
    if not depth or owner.decorator_list or "globals" in scopes.calls_by_name:
        return True
    if any(path != scopes.path for path in project.words.mentioning(name.encode())) or any(
        name in text for text in scopes.strings
    ):
        return True
    for node in scopes.module.of(ast.Name):
        if node.id == name:
            user = _owner(scopes, node)
            if user is None or (user is not owner and _is_used(project, scopes, user, depth - 1)):
                return True
    return any(name.encode() in project.data(path) for path in project.files if path.suffix != ".py")
