"""Values with ``.item()`` that may be numbers of NumPy, which have no ``detach``: scores of a library for arrays, and
what an object returns whose class a configuration names."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.placement.tensor_location import TensorLocations
from gpulint.project import Project
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.forward_calls import forward_calls
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, FunctionNode, ModuleIndex, NodeRef, last_name
from gpulint_fixers.waits.element_types import is_about_loss

_DEEPEST = 4
"""How many names and calls a value is followed through."""
_CHOOSES = frozenset({"getattr", "instantiate", "locate", "get_class", "import_string", "build_from_cfg", "eval"})
"""Functions that give what a text names, or an object of it."""
_METHODS = frozenset({"detach", "cpu", "data"})
"""What only tensors have."""
_OF_TENSORS = ("torch", "torchmetrics", "torchvision", "monai", "pytorch_lightning")


def is_of_numpy(project: Project, module: ModuleIndex, whole: ast.expr, tensor: ast.expr) -> bool:
    """Return whether what is read by ``score.item()`` alone may be a number of NumPy."""
    copied = any(isinstance(part, ast.Attribute) and part.attr in _METHODS for part in walk(whole))
    losses = (call for call in module.calls_by_name.get("backward", []) if isinstance(call.func, ast.Attribute))
    if (
        copied
        or is_about_loss(ast.unparse(tensor))
        or any(ast.unparse(call.func) == f"{ast.unparse(tensor)}.backward" for call in losses)
    ):
        return False
    return may_be_of_numpy(project, module, tensor)


def may_be_of_numpy(project: Project, module: ModuleIndex, value: ast.expr, depth: int = _DEEPEST) -> bool:
    """Return whether a value may be what a function returns that computes on the host, or what an object returns of
    which only a configuration tells the class."""
    if not depth:
        return False
    match value:
        case ast.Name(id=name):
            bound = reaching(module, module.scope(value).lookup(name), value)
            made = [one.value for one in bound if one.kind is BindingKind.ASSIGN and one.value is not None]
            return any(may_be_of_numpy(project, module, one, depth - 1) for one in made if isinstance(one, ast.Call))
        case ast.Call(func=func):
            callees = project.fact(Resolver).callees(module, value)
            if callees:
                return any(_returns_host(project, one, depth - 1) for one in callees)
            return isinstance(func, ast.Name) and _is_chosen(project, module, func, depth)
    return False


def _returns_host(project: Project, callee: NodeRef, depth: int) -> bool:
    """Return whether one of the values that a function returns is computed on the host."""
    if not isinstance(callee.node, FUNCTIONS) or not depth:
        return False
    host = project.fact(TensorLocations).is_host
    returned = project.fact(Resolver).returns(callee.node)
    return any(
        not isinstance(one, ast.Constant)
        and (host(callee.module, one) or may_be_of_numpy(project, callee.module, one, depth - 1))
        for one in returned
    )


def _is_chosen(project: Project, module: ModuleIndex, name: ast.Name, depth: int) -> bool:
    """Return whether a variable holds an object of a class that a text names, or an entry of a table, also where the
    calls of its function hand it over."""
    if not depth:
        return False
    for one in reaching(module, module.scope(name).lookup(name.id), name):
        if one.kind is BindingKind.ASSIGN and one.value is not None and _chooses(project, module, one.value):
            return True
        function = one.scope.node
        if one.kind is BindingKind.PARAMETER and isinstance(function, FUNCTIONS):
            for site in _sites(project, module, function):
                given = argument_of(function, site.node, name.id) if isinstance(site.node, ast.Call) else None
                if isinstance(given, ast.Name) and _is_chosen(project, site.module, given, depth - 1):
                    return True
                if given is not None and _chooses(project, site.module, given):
                    return True
    return False


def _sites(project: Project, module: ModuleIndex, function: FunctionNode) -> tuple[NodeRef, ...]:
    if getattr(function, "name", "") == "forward":
        return tuple(forward_calls(project, module, function))
    return tuple(project.fact(Resolver).first_sites(module, function))


def _chooses(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    """``getattr(metrics, name)(...)``, ``METRICS[name](...)``, ``instantiate(config.metric)``"""
    made = value.func if isinstance(value, ast.Call) else value
    match made:
        case ast.Call(func=func, args=[source, *_]) if last_name(func) in _CHOOSES:
            names = project.fact(Resolver).names(module, source)
            return not any(name.partition(".")[0] in _OF_TENSORS for name in names)
        case ast.Subscript(slice=index):
            return not isinstance(index, ast.Constant | ast.Slice) and isinstance(value, ast.Call)
    return isinstance(value, ast.Call) and last_name(value.func) in _CHOOSES - {"getattr"}
