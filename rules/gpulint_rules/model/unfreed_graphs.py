"""Values that are computed of a model's output beside the loss (``score = criterion.score(output, labels)``), whose
part of the graph no ``backward`` frees."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, FunctionNode, ModuleIndex, dotted


def stays_whole(project: Project, module: ModuleIndex, tensor: ast.expr, losses: Mapping[str, ast.Call]) -> bool:
    """Return whether a name is what the function of a differentiated loss, or a method of it that computes the same,
    returned for the same output of a model. ``backward`` of the loss frees what led to the output, so that the value
    cannot be differentiated any more."""
    if not isinstance(tensor, ast.Name) or tensor.id in losses:
        return False
    bound = reaching(module, module.scope(tensor).lookup(tensor.id), tensor)
    made = [_call(one) for one in bound]
    known = [call for name, at in losses.items() for call in _calls_of(module, name, at)]
    guards = project.fact(Guards)
    return bool(made) and all(
        call is not None
        and not guards.is_without_gradients(module, call)
        and any(_is_like(project, module, call, loss) for loss in known)
        for call in made
    )


def _call(binding: Binding) -> ast.Call | None:
    plain = binding.kind is BindingKind.ASSIGN and not binding.path and isinstance(binding.value, ast.Call)
    return binding.value if plain and isinstance(binding.value, ast.Call) else None


def _calls_of(module: ModuleIndex, name: str, backward: ast.Call) -> Iterator[ast.Call]:
    """The calls that gave a loss that ``backward`` runs on."""
    for part in walk(backward):
        if isinstance(part, ast.Name) and part.id == name:
            made = [_call(one) for one in reaching(module, module.scope(part).lookup(name), part)]
            yield from (call for call in made if call is not None)


def _is_like(project: Project, module: ModuleIndex, call: ast.Call, loss: ast.Call) -> bool:
    if not _outputs(module, call) & _outputs(module, loss):
        return False
    own, other = dotted(call.func), dotted(loss.func)
    if own and own == other:
        return True
    match call.func:
        case ast.Attribute(value=owner, attr=name) if other and dotted(owner) == other:
            found = project.fact(Resolver).classes_of(module, owner)
            return bool(found) and all(_computes_same(project, *one, name) for one in found)
    return False


def _outputs(module: ModuleIndex, call: ast.Call) -> set[Binding]:
    """Return what the names that a call gets are bound to, where calls computed it."""
    names = [part for part in call.args if isinstance(part, ast.Name)]
    found = (one for name in names for one in reaching(module, module.scope(name).lookup(name.id), name))
    return {one for one in found if isinstance(one.value, ast.Call) and not one.path}


def _computes_same(project: Project, module: ModuleIndex, owner: ast.ClassDef, name: str) -> bool:
    """Return whether a method returns sums and products of what a method or module gives that ``forward`` calls as
    well: ``return 1.0 - self.dice(inputs, targets)``."""
    forward, method = (project.fact(Resolver).method(module, owner, one) for one in ("forward", name))
    if forward is None or method is None:
        return False
    one, other = forward.node, method.node
    if not isinstance(one, FUNCTIONS) or not isinstance(other, FUNCTIONS):
        return False
    return not _returned(one).isdisjoint(_returned(other))


def _returned(method: FunctionNode) -> set[str]:
    """Names of what a method of ``self`` calls for the value that its last statement returns."""
    last, made = method.body[-1], dict[str, ast.expr]()
    for statement in method.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                made[name] = value
    found, left = set[str](), [last.value] if isinstance(last, ast.Return) and last.value is not None else []
    while left:
        match left.pop():
            case ast.BinOp(left=one, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=other):
                left += [one, other]
            case ast.Name(id=name) if name in made:
                left.append(made.pop(name))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=called)):
                found.add(called)
    return found
