"""Reads in a step of what a function of the tree made of tensors, of which it is not known that they wait."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.python import walk
from gpulint.placement.tensor_location import TensorLocations
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef

_NUMBERS = frozenset({"float", "int"})
_READS = frozenset({"item", "tolist", "cpu", "numpy"})


def unknown_reads(project: Project, module: ModuleIndex, loop: ast.AST) -> Iterator[NodeRef]:
    """Yield ``float(errors[name])`` where the loop has ``errors = evaluate(output)``, and ``evaluate`` reads nothing
    itself."""
    for call in (part for part in walk(loop) if isinstance(part, ast.Call)):
        match call:
            case ast.Call(func=ast.Name(id=name), args=[ast.Subscript(value=ast.Name() as table)]) if name in _NUMBERS:
                bindings = module.scope(table).lookup(table.id)
            case _:
                continue
        made = [binding.value for binding in bindings if loop in module.syntax.ancestors(binding.node)]
        if made and len(made) == len(bindings) and all(_makes_tensors(project, module, value) for value in made):
            yield NodeRef(module, call)


def _makes_tensors(project: Project, module: ModuleIndex, made: ast.expr | None) -> bool:
    """Return whether a value is what functions of the tree make of a tensor without reading any."""
    if not isinstance(made, ast.Call):
        return False
    given = (*made.args, *(keyword.value for keyword in made.keywords))
    location, functions = project.fact(TensorLocations), project.fact(Resolver).callees(module, made)
    return (
        any(location.is_tensor(module, value) for value in given)
        and bool(functions)
        and all(isinstance(one.node, FUNCTIONS) and not _reads(one.node) for one in functions)
    )


def _reads(function: ast.AST) -> bool:
    for part in walk(function):
        match part:
            case ast.Call(func=ast.Name(id=name)) if name in _NUMBERS:
                return True
            case ast.Call(func=ast.Attribute(attr=name)) if name in _READS:
                return True
    return False
