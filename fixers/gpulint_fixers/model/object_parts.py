"""Totals of what the method that computes a loss leaves on its object: ``loss = net.loss(out)``, then ``total +=
net.center_loss``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint_rules.model.graph_values import carried, detached, lets_go
from gpulint_rules.model.kept_parts import KeptParts
from gpulint_rules.model.lasting_totals import RetainedGraph, kept_in, outlives

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.semantic.argument_binding import accepts
from gpulint.semantic.named_methods import is_of_outside
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, dotted, last_name
from gpulint.workspace.word_index import word_of

MAX_FILES = 40
"""Most files with a method's name that are searched for it."""


def object_parts(project: Project, found: RetainedGraph) -> KeptParts:
    """Return which attributes of the objects that compute a loss a loop adds up as they are."""
    module, loop = found.module, found.loop
    calls = [
        call for part in walk(found.value) if isinstance(part, ast.Name) for call in _made_by_methods(module, part)
    ]
    tensors, unsure, without = list[ast.expr](), list[ast.expr](), detached(module, loop)
    for kept, into in kept_in(loop) if calls else ():
        for value in carried(kept, ()):
            call = next((one for one in calls if _is_of(value, one)), None)
            if call is None or dotted(value) in without or project.fact(Guards).is_without_gradients(module, kept):
                continue
            if not outlives(project, module, loop, into) or lets_go(project, module, loop, into):
                continue
            assert isinstance(value, ast.Attribute)
            methods = _methods(project, module, call)
            kinds = {_kind(project, method, value.attr) for method in methods} - {""}
            if kinds == {"tensor"}:
                tensors.append(value)
            elif kinds or (not methods and "loss" in value.attr.lower()):
                unsure.append(value)
    return KeptParts(tuple(tensors), tuple(unsure))


def _made_by_methods(module: ModuleIndex, loss: ast.Name) -> Iterator[ast.Call]:
    for binding in reaching(module, module.scope(loss).lookup(loss.id), loss):
        if isinstance(binding.value, ast.Call) and isinstance(binding.value.func, ast.Attribute):
            yield binding.value


def _methods(project: Project, module: ModuleIndex, call: ast.Call) -> list[NodeRef]:
    """The methods that a call reaches or, where the object is unknown, those of its name that take its arguments."""
    if found := project.fact(Resolver).callees(module, call):
        return found
    name = last_name(call.func)
    paths = project.word_index.mentioning(word_of(name))
    modules = [
        one for one in map(project.module_at, paths[:MAX_FILES]) if one is not None and not project.is_test(one.path)
    ]
    if len(paths) > MAX_FILES or is_of_outside(project, module, call):
        return []
    return [
        NodeRef(one, function)
        for one in modules
        for function in one.functions
        if function.name == name and one.class_of(function) is not None and accepts(function, call)
    ]


def _is_of(value: ast.expr, call: ast.Call) -> bool:
    """Return whether a value is an attribute of the object whose method a call names."""
    assert isinstance(call.func, ast.Attribute)
    owner = dotted(call.func.value)
    return isinstance(value, ast.Attribute) and bool(owner) and dotted(value.value) == owner


def _kind(project: Project, method: NodeRef, attr: str) -> str:
    """Return whether a method leaves a ``tensor`` in an attribute that it adds to what it returns, or something
    ``unknown``; empty if it returns nothing that is computed of it."""
    node = method.node
    if not isinstance(node, FUNCTIONS) or isinstance(node, ast.Lambda):
        return ""
    own = f"self.{attr}"
    stored = [
        part
        for part in walk(node)
        if isinstance(part, ast.Assign) and any(dotted(target) == own for target in part.targets)
    ]
    returned = project.fact(Resolver).returns(node)
    if not stored or not any(
        dotted(part) == own for value in returned for part in walk(value) if isinstance(part, ast.Attribute)
    ):
        return ""
    values = [NodeRef(method.module, one.value) for one in stored]
    if all(any(True for _ in conditions(method.module, one)) for one in stored):
        values += _first_values(project, method, attr)
    return "tensor" if all(_is_tensor(project, value) for value in values) else "unknown"


def _first_values(project: Project, method: NodeRef, attr: str) -> Iterator[NodeRef]:
    """Yield what else the class sets an attribute to, as in its constructor."""
    owner = method.module.class_of(method.node)
    bound = project.fact(Resolver).class_attribute(method.module, owner, attr) if owner is not None else ()
    yield from (NodeRef(where, one.value if one.value is not None else one.node) for where, one in bound)


def _is_tensor(project: Project, value: NodeRef) -> bool:
    """Return whether a call computes a value, and no function that it may reach returns a number."""
    if not isinstance(value.node, ast.Call):
        return False
    resolver = project.fact(Resolver)
    nodes = (one.node for one in resolver.callees(value.module, value.node))
    returned = (one for node in nodes if isinstance(node, ast.FunctionDef) for one in resolver.returns(node))
    return not any(isinstance(one, ast.Constant) for one in returned)
