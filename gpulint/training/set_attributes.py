"""Attributes that code sets on objects from outside of their class: ``log.writer = SummaryWriter()``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project


@query
def is_set_from_outside(project: Project, name: str) -> bool:
    """Return whether code of the tree sets an attribute of this name on something other than ``self``."""
    for path in project.word_index.mentioning(word_of(name)):
        module = project.module_at(path)
        if module is None:
            continue
        for node in module.syntax.of(ast.Attribute):
            is_self = isinstance(node.value, ast.Name) and node.value.id == "self"
            if node.attr == name and isinstance(node.ctx, ast.Store) and not is_self:
                return True
    return False
