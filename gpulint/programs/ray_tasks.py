"""Tasks and actors of Ray, which hides all GPUs from those that ask for none."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.workspace.module_index import FUNCTIONS, dotted

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_ASKS = (b"num_gpus", b"accelerator_type", b"set_resource")
"""Identifiers of programs whose tasks may get GPUs."""


@query
def is_in_task_without_gpus(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place is in a function or a class that ``@ray.remote`` runs elsewhere, in a tree that asks Ray
    for no GPUs."""
    around = (up for up in (node, *module.syntax.ancestors(node)) if isinstance(up, (*FUNCTIONS, ast.ClassDef)))
    remote = any(_is_remote(one) for up in around for one in up.decorator_list)
    return remote and not any(project.word_index.mentioning(word) for word in _ASKS)


def _is_remote(decorator: ast.expr) -> bool:
    match decorator:
        case ast.Call(func=func, keywords=keywords):
            return dotted(func) == "ray.remote" and not any(one.arg in (None, "resources") for one in keywords)
    return dotted(decorator) == "ray.remote"
