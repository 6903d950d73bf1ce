"""Classes that no program of the tree makes: neither its code nor its configuration names them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.facts.scopes import ModuleScopes

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_CLASSES = 3
"""How many classes of a module may use each other without anybody using the last of them."""


def in_unused_class(project: Project, scopes: ModuleScopes, node: ast.AST) -> bool:
    """Does a node stand in a class that nothing in the tree names?"""
    owner = scopes.class_of(node)
    return owner is not None and not _is_used(project, scopes, owner, MAX_CLASSES)


def _is_used(project: Project, scopes: ModuleScopes, owner: ast.ClassDef, depth: int) -> bool:
    name = owner.name
    if not depth or owner.decorator_list or "globals" in scopes.calls_by_name:
        return True
    if any(path != scopes.path for path in project.words.mentioning(name.encode())) or any(
        name in text for text in scopes.strings
    ):
        return True
    for node in scopes.module.of(ast.Name):
        if node.id == name:
            user = scopes.class_of(node)
            if user is None or (user is not owner and _is_used(project, scopes, user, depth - 1)):
                return True
    return any(name.encode() in project.data(path) for path in project.files if path.suffix != ".py")
