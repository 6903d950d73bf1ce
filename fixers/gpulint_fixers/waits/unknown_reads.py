"""Reads in a step of what a function of the tree made of tensors, of which it is not known that they wait."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.tensor_location import TensorLocations
from gpulint.placement.unknown_results import UnknownResults
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef

_NUMBERS = frozenset({"float", "int"})
_METRICS = regex.compile(r"metric|score|accura|precision|recall|f1|auc|confusion|(^|_)(acc|evaluate|iou|bleu)(_|$)")
"""Names of functions that rate predictions, mostly with NumPy."""
_READS = frozenset({"item", "tolist", "cpu", "numpy"})


def unknown_reads(project: Project, module: ModuleIndex, loop: ast.AST) -> Iterator[NodeRef]:
    """Yield ``float(errors[name])`` where the loop has ``errors = evaluate(output)``, and ``evaluate`` reads nothing
    itself, ``torch.stack(norms).tolist()`` of the tensors that it appends to ``norms``, ``score.item()`` of what an
    unknown library returns, and ``calculate_metrics(predicted, labels)`` that the tree does not show to the module."""
    for call in (part for part in walk(loop) if isinstance(part, ast.Call)):
        match call:
            case ast.Call(
                func=ast.Attribute(
                    attr=read, value=ast.Call(func=ast.Attribute(attr="stack"), args=[ast.Name(id=name)])
                )
            ) if read in _READS:
                if _appends_tensors(project, module, loop, name):
                    yield NodeRef(module, call)
                continue
            case ast.Call(func=ast.Attribute(attr="item", value=value), args=[]):
                if project.fact(UnknownResults).holds(module, value):
                    yield NodeRef(module, call)
                continue
            case ast.Call(func=ast.Name(id=name)) if _METRICS.search(name) and _is_unknown(module, call.func):
                if _takes_tensor(project, module, call) and not _gives_tensors(module, call):
                    yield NodeRef(module, call)
                continue
            case ast.Call(func=ast.Name(id=name), args=[ast.Subscript(value=ast.Name() as table)]) if name in _NUMBERS:
                bindings = module.scope(table).lookup(table.id)
            case _:
                continue
        made = [binding.value for binding in bindings if loop in module.syntax.ancestors(binding.node)]
        if made and len(made) == len(bindings) and all(_makes_tensors(project, module, value) for value in made):
            yield NodeRef(module, call)


def rates(call: ast.Call) -> bool:
    """Return whether a call may rate predictions, rather than turn a tensor into a number (``float(loss)``)."""
    return isinstance(call.func, ast.Name) and call.func.id not in _NUMBERS


def _is_unknown(module: ModuleIndex, name: ast.expr) -> bool:
    """Return whether nothing of the module says what a name is, as a star import or a missing file may."""
    return isinstance(name, ast.Name) and not module.scope(name).lookup(name.id) and not hasattr(builtins, name.id)


def _takes_tensor(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    return any(project.fact(TensorLocations).is_tensor(module, value) for value in given)


def _gives_tensors(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether something reads what a call returns, or goes on with it, as tensors: ``score.item()``."""
    statement = next(up for up in module.syntax.ancestors(call) if isinstance(up, ast.stmt))
    names = {part.id for part in walk(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    parents = (module.syntax.parents.get(use) for name in names for use in module.uses.get(name, ()))
    own = module.syntax.parents.get(call)
    return any(isinstance(up, ast.Attribute | ast.Subscript) for up in (own, *parents))


def _appends_tensors(project: Project, module: ModuleIndex, loop: ast.AST, name: str) -> bool:
    """Return whether a loop appends to a list, and tensors on the GPU alone."""
    location = project.fact(TensorLocations)
    added = [
        call.args[0]
        for call in module.calls_by_name.get("append", ())
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == name
        if call.args and loop in module.syntax.ancestors(call)
    ]
    return bool(added) and all(location.is_tensor(module, value) or _is_of_gradient(value) for value in added)


def _is_of_gradient(value: ast.expr) -> bool:
    """``parameter.grad.norm(2)``"""
    return any(isinstance(part, ast.Attribute) and part.attr == "grad" for part in walk(value))


def _makes_tensors(project: Project, module: ModuleIndex, made: ast.expr | None) -> bool:
    """Return whether a value is what functions of the tree make of a tensor without reading any."""
    if not isinstance(made, ast.Call):
        return False
    functions = project.fact(Resolver).callees(module, made)
    return (
        _takes_tensor(project, module, made)
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
