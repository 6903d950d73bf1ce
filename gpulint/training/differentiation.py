"""Code that differentiates: what a loss is made of, and which calls reach a backward pass."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import cyclic, query
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, dotted, last_name, source_text

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_ASSIGNED = 4
"""Assignments through which the parts of a loss are followed."""
_BACKWARD = frozenset({"backward", "manual_backward", "zero_grad"})
"""Calls of those who run a backward pass, or are about to."""
_AUTOGRAD = ("grad", "autograd.grad", "torch.autograd.grad")
_DERIVATIVES = frozenset({"jacrev", "jacfwd", "jacobian", "hessian", "vjp", "jvp", "vhp", "hvp", "grad_and_value"})
"""Functions of ``torch.func`` and ``torch.autograd.functional``."""
_RECORDED = frozenset({"retain_grad", "register_hook"})
"""What raises an error on a tensor that is computed without gradients."""
_RECORDS = regex.compile(r"grad|training", re.IGNORECASE)
"""Conditions under which a tensor records gradients: ``x.requires_grad``, ``torch.is_grad_enabled()``."""


def takes_gradients(project: Project, module: ModuleIndex, region: ast.AST) -> bool:
    """Return whether a region of a function runs a backward pass or cannot run without gradients, by itself or in a
    function that it reaches, as class activation maps and attacks do."""
    return any(
        _is_backward(part) or _is_on_recorded(module, part) or _reaches_backward(project, module, part)
        for part in walk(region)
        if isinstance(part, ast.Call)
    )


def _is_backward(call: ast.Call) -> bool:
    return last_name(call.func) in _BACKWARD | _DERIVATIVES or dotted(call.func) in _AUTOGRAD


def _is_on_recorded(module: ModuleIndex, call: ast.Call) -> bool:
    """``hidden.retain_grad()``, unless a condition tells that ``hidden`` records gradients"""
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in _RECORDED
        and not any(_RECORDS.search(source_text(module, test)) for test, _ in conditions(module, call))
    )


def _reaches_backward(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    called = project.fact(Resolver).callees(module, call) or _handed_on(project, module, call)
    return any(
        _differentiates(project, callee.module, callee.node) for callee in called if isinstance(callee.node, FUNCTIONS)
    )


def _handed_on(project: Project, module: ModuleIndex, call: ast.Call) -> list[NodeRef]:
    """Functions, and forward passes of the tree, that a function of another package gets: ``odeint(self.dynamics, x,
    times)``."""
    resolver = project.fact(Resolver)
    found: list[NodeRef] = []
    for given in call.args:
        if isinstance(given, ast.Name | ast.Attribute):
            found += [ref for ref in resolver.points_to(module, given) if isinstance(ref.node, FUNCTIONS)]
            forwards = (resolver.method(*one, "forward") for one in resolver.classes_of(module, given))
            found += [method for method in forwards if method is not None]
    return found


@cyclic(False)
def _differentiates(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a function runs a backward pass, cannot run without gradients, or calls one of either."""
    calls = module.calls_of(function)
    return any(
        _is_backward(call) or _is_on_recorded(module, call) or _reaches_backward(project, module, call)
        for call in calls
    )


@query
def propagated(project: Project, module: ModuleIndex, function: FunctionNode | None) -> frozenset[str]:
    """Names that what a function calls ``backward`` of is made of, as far as its assignments tell."""
    calls = (call for call in module.calls_of(function) if propagates(project, module, call))
    names = {part.id for call in calls for part in walk(call) if isinstance(part, ast.Name)}
    statements: Iterator[ast.Assign | ast.AugAssign] = module.syntax.of(ast.Assign, ast.AugAssign)
    assigned = [part for part in statements if module.function(part) is function]
    for _ in range(MAX_ASSIGNED):
        before = len(names)
        for part in assigned:
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            if any(isinstance(name, ast.Name) and name.id in names for target in targets for name in walk(target)):
                names |= {name.id for name in walk(part.value) if isinstance(name, ast.Name)}
        if len(names) == before:
            break
    return frozenset(names)


def propagates(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """``loss.backward()``, or a function of the tree that calls it of what it is given, by itself or through others."""
    if last_name(call.func) == "backward":
        return True
    return bool(call.args or call.keywords) and any(
        _calls_backward(project, callee)
        for callee in project.fact(Resolver).callees(module, call)
        if isinstance(callee.node, ast.FunctionDef)
    )


@cyclic(False)
def _calls_backward(project: Project, callee: NodeRef) -> bool:
    """Return whether a function calls ``backward`` of one of its parameters, or hands one to a function that does."""
    module, function = callee.module, callee.node
    assert isinstance(function, ast.FunctionDef)
    given = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)} - {"self"}
    return any(
        any(isinstance(part, ast.Name) and part.id in given for part in walk(call))
        and propagates(project, module, call)
        for call in module.calls_of(function)
    )
