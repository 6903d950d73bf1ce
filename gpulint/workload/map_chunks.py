"""Batch sizes that are no batches of a model: how many samples a function is mapped over at a time."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.points_to import Resolver
from gpulint.training.batch_makers import takes_size_alone
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project


def is_for_map(project: Project, module: ModuleIndex, call: ast.Call, size: ast.expr) -> bool:
    """Return whether all functions that a call reaches pass the batch size on to calls that make no batches, such as
    ``dataset.map(tokenise, batched=True, batch_size=batch_size)``."""
    callees = project.fact(Resolver).callees(module, call)
    return bool(callees) and all(
        isinstance(callee.node, FUNCTIONS) and _passes_to_map(callee.node, call, size) for callee in callees
    )


def _passes_to_map(function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call, size: ast.expr) -> bool:
    names = {name for name in parameters(function) if argument_of(function, call, name) is size}
    uses = [part for part in walk(function) if isinstance(part, ast.Name) and part.id in names]
    mapped = {
        keyword.value
        for part in walk(function)
        if isinstance(part, ast.Call) and takes_size_alone(last_name(part.func))
        for keyword in part.keywords
    }
    return bool(uses) and all(use in mapped for use in uses)
