"""Data sets whose samples are tensors that record gradients: workers can neither collate nor send them.

In a worker ``default_collate`` stacks into shared memory (``torch.stack(batch, out=...)``), which autograd refuses.
What another collate function stacks is no leaf, which cannot be sent to another process.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.semantic.points_to import Resolver
from gpulint.workload.dataset_work import parts_of
from gpulint.workload.gpu_samples import reached

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_ENDS = frozenset({"detach", "detach_", "data", "numpy", "item", "tolist", "backward", "grad"})
"""What takes a value from a tensor that records, or computes the gradients there."""


def have_gradients(project: Project, loader: Loader) -> bool:
    """Return whether a data set makes its samples with ``requires_grad=True``, and does not detach them."""
    resolver = project.fact(Resolver)
    return any(
        _records(owner)
        for source in parts_of(project, loader)
        if isinstance(source.node, ast.expr)
        for _, owner in resolver.classes_of(source.module, source.node)
    )


def _records(owner: ast.ClassDef) -> bool:
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    if (get := methods.get("__getitem__")) is None:
        return False
    parts = [part for method in reached(methods, get) for part in walk(method)]
    return any(map(_is_recorded, parts)) and not any(
        isinstance(part, ast.Attribute) and part.attr in _ENDS for part in parts
    )


def _is_recorded(part: ast.AST) -> bool:
    """``torch.tensor(values, requires_grad=True)``, ``image.requires_grad_()``, ``image.requires_grad = True``"""
    match part:
        case ast.Call(func=ast.Attribute(attr="requires_grad_"), args=[], keywords=[]):
            return True
        case ast.Call(keywords=keywords):
            return any(
                keyword.arg == "requires_grad" and getattr(keyword.value, "value", None) is True for keyword in keywords
            )
        case ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=ast.Constant(value=True)):
            return True
    return False
