"""Properties, which run where an attribute is read."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import NodeRef

_PROPERTIES = ("property", "cached_property")


def properties(project: Project, method: NodeRef) -> list[NodeRef]:
    """The properties of its object that a method reads: ``self.file["images"]``, which opens the file first."""
    module, resolver = method.module, project.fact(Resolver)
    owner = module.class_of(method.node)
    if owner is None or not any(isinstance(part, FUNCTIONS) and part.decorator_list for part in owner.body):
        return []
    names = {
        part.attr
        for part in walk(method.node)
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self"
    }
    found = (resolver.method(module, owner, name) for name in sorted(names))
    return [one for one in found if one is not None and _is_property(one.node)]


def _is_property(function: ast.AST) -> bool:
    return isinstance(function, FUNCTIONS) and any(last_name(one) in _PROPERTIES for one in function.decorator_list)
