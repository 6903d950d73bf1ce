"""Scores of an evaluation batch that are computed and read class by class: ``(preds == label).sum().item()`` in a loop
over the labels."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.placement.subscript_indices import loops_around, targets
from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.placement.unknown_results import is_not_on_gpu
from gpulint.project import Project
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.bounded_loops import FEW
from gpulint.workspace.module_index import BindingKind, LoopNode, ModuleIndex

MAX_NAMES = 12
"""Most variables through which a value is followed."""


def read_class_by_class(project: Project, module: ModuleIndex, sync: SyncPoint) -> list[LoopNode | ast.comprehension]:
    """Return the loop over labels in whose rounds a value is read that is computed with the label of the round."""
    if sync.kind is not SyncKind.READ or sync.value is None or is_not_on_gpu(project, module, sync):
        return []
    for loop in loops_around(module, sync.node):
        if _is_short(loop):
            continue
        if _compares(module, sync.value, loop):
            return [loop]
    return []


def _is_short(loop: LoopNode | ast.comprehension) -> bool:
    """``range(2)``, ``(0, 1)``"""
    match getattr(loop, "iter", None):
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))]):
            return count <= FEW
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return len(parts) <= FEW
    return False


def _compares(module: ModuleIndex, value: ast.expr, loop: LoopNode | ast.comprehension) -> bool:
    """Return whether what a value is computed of in a round compares something with the label of the round."""
    labels, todo, seen = targets(loop), [value], set[ast.AST]()
    while todo and len(seen) < MAX_NAMES:
        for part in walk(todo.pop()):
            if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Eq | ast.NotEq):
                sides = (part.left, part.comparators[0])
                if any(isinstance(side, ast.Name) and side.id in labels for side in sides):
                    return True
            if not isinstance(part, ast.Name) or part.id in labels:
                continue
            for binding in reaching(module, module.scope(part).lookup(part.id), part):
                whole = not binding.path or isinstance(binding.value, ast.Tuple)
                kept = binding.value if binding.kind is BindingKind.ASSIGN and whole else None
                if kept is not None and kept not in seen and loop in module.syntax.ancestors(kept):
                    seen.add(kept)
                    todo.append(kept)
    return False
