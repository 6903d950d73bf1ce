"""Callbacks of a program's own, which only its own code calls (``for one in callbacks: one.on_batch_end()``)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, NodeRef, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_FILES = 30
"""Most files that mention a method and are searched for its calls."""
_PLAIN = frozenset({"object", "ABC", "Protocol", "Generic"})
"""Bases that call nothing."""


@query
def own_calls(project: Project, module: ModuleIndex, function: FunctionNode) -> tuple[NodeRef, ...]:
    """Return the calls of a method of this name in the tree, if its class has no base elsewhere; none if something else
    may call it."""
    owner = module.syntax.parents.get(function)
    if not isinstance(owner, ast.ClassDef) or not owner.bases:
        return ()
    resolver = project.fact(Resolver)
    for where, current in resolver.mro(module, owner):
        bases = [base for base in current.bases if last_name(base) not in _PLAIN]
        if len(resolver.bases(where, current)) < len(bases):
            return ()
    paths = [path for path in project.word_index.mentioning(word_of(function.name)) if not project.is_test(path)]
    if len(paths) > MAX_FILES:
        return ()
    modules = [found for found in map(project.module_at, paths) if found is not None]
    return tuple(
        NodeRef(where, call)
        for where in modules
        for call in where.calls_by_name.get(function.name, ())
        if isinstance(call.func, ast.Attribute) and not _is_of_base(call.func.value)
    )


def _is_of_base(owner: ast.expr) -> bool:
    """``super()``"""
    return isinstance(owner, ast.Call) and last_name(owner.func) == "super"
