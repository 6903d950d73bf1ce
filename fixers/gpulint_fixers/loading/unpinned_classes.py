"""Batches of a class of the tree that ``pin_memory`` of a loader does not reach."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex

UNPINNED = "the batches are objects of `{}`, which has no method `pin_memory` for loaders to call: add one first"
_DEPTH = 3
_COLLECTIONS = frozenset({"dict", "list", "tuple", "UserDict", "NamedTuple", "BatchEncoding", "Data", "Batch"})
"""Bases of classes that a loader looks into, or that pin what they hold."""


def unpinned_class(project: Project, loader: Loader) -> str:
    """Return the class of what a collate function makes that has ``to`` but no ``pin_memory``: a loader passes its
    objects through as they are, and the copies of what they hold block. Empty if there is none."""
    given = loader_argument(project, loader, "collate_fn").refs
    for ref in given:
        for made in project.fact(Resolver).points_to(ref.module, ref.node):
            if isinstance(made.node, ast.ClassDef) and _is_unpinned(project, made.module, made.node):
                return made.node.name
            if isinstance(made.node, FUNCTIONS) and (name := _made_in(project, made.module, made.node, _DEPTH)):
                return name
    return ""


@query
def _made_in(project: Project, module: ModuleIndex, function: ast.AST, depth: int) -> str:
    """The name of such a class of which a function makes an object."""
    resolver = project.fact(Resolver)
    for call in (part for part in walk(function) if isinstance(part, ast.Call)):
        for made in resolver.points_to(module, call.func):
            if isinstance(made.node, ast.ClassDef):
                if _is_unpinned(project, made.module, made.node):
                    return made.node.name
                continue
            inner = depth and isinstance(made.node, FUNCTIONS) and made.node is not function
            if inner and (name := _made_in(project, made.module, made.node, depth - 1)):
                return name
    return ""


def _is_unpinned(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    resolver = project.fact(Resolver)
    if any(ast.unparse(base).rpartition(".")[2] in _COLLECTIONS for base in owner.bases):
        return False
    moves = resolver.method(module, owner, "to") or resolver.method(module, owner, "cuda")
    return moves is not None and resolver.method(module, owner, "pin_memory") is None
