"""Models and layers that have no weights: no graph is recorded for what they compute."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.semantic.points_to import Resolver
from gpulint.training.model_sizes import makes_no_weights
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project


def is_layer_without_weights(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a constructor gives an attribute what has no weights: ``nn.MaxPool2d(2)``, a class of the tree."""
    if not isinstance(value, ast.Call):
        return False
    names = project.fact(Resolver).call_names(module, value)
    return makes_no_weights(project, names) or has_no_weights(project, module, value, True)


def has_no_weights(project: Project, module: ModuleIndex, model: ast.expr, part: bool = False) -> bool:
    """Return whether a model is of classes of the tree that make nothing but buffers, as those of metrics do; a
    part of another model need not even have a constructor."""
    resolver = project.fact(Resolver)
    classes = [base for one in resolver.classes_of(module, model) for base in resolver.mro(*one)]
    bases = {name for where, owner in classes for name in resolver.base_names(where, owner)}
    methods = [(where, one) for where, owner in classes for one in owner.body if isinstance(one, FUNCTIONS)]
    calls = (
        resolver.call_names(where, called)
        for where, method in methods
        if method.name != "forward"
        for called in walk(method)
        if isinstance(called, ast.Call) and last_name(called.func) not in ("super", "__init__", "register_buffer")
    )
    return (
        (part or any(method.name == "__init__" for _, method in methods))
        and bases == {"torch.nn.Module"}
        and all(
            any(name.startswith("torch.") for name in names) and not any(name.startswith("torch.nn.") for name in names)
            for names in calls
        )
    )
