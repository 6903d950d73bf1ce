"""Calls that run the methods of a custom ``torch.autograd.Function``: ``Memory.apply(inputs, targets)``, whose
``backward`` runs in the same step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, NodeRef, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

_METHODS = frozenset({"forward", "backward", "setup_context"})


def owner_of(module: ModuleIndex, function: FunctionNode) -> ast.ClassDef | None:
    """Return the class of a method that PyTorch calls of an ``autograd.Function``; None for any other function."""
    owner = module.syntax.parents.get(function)
    if function.name not in _METHODS or not isinstance(owner, ast.ClassDef):
        return None
    return owner if any(last_name(base) == "Function" for base in owner.bases) else None


def applications(project: Project, module: ModuleIndex, function: FunctionNode) -> tuple[NodeRef, ...]:
    """Return the calls of ``apply`` that lead to a method of an ``autograd.Function``."""
    owner = owner_of(module, function)
    return _applications(project, owner.name) if owner is not None else ()


@query
def _applications(project: Project, name: str) -> tuple[NodeRef, ...]:
    return tuple(
        NodeRef(where, call)
        for path in sorted(project.word_index.mentioning(word_of(name)))
        if (where := project.module_at(path)) is not None
        for call in where.calls_by_name.get("apply", ())
        if isinstance(call.func, ast.Attribute) and last_name(call.func.value) == name
    )
