"""Forward passes for which gradients are certainly off, though nothing around them says so."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.libraries.frameworks import GradientFree
from gpulint.libraries.names import matches
from gpulint.query import cyclic, query
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_SAME_GRAPH = frozenset(
    "cpu to float double half squeeze unsqueeze view reshape flatten permute transpose contiguous mean sum softmax "
    "log_softmax sigmoid tanh exp clamp norm normalize".split()
)
"""Methods and functions whose result still needs gradients."""

_WEIGHTS = ("torch.nn.", "torch.load", "torch.jit.load", "torch.hub.", "torchvision.models.", "timm.", "transformers.")
"""What makes layers, or models that have some."""


def runs_without_gradients(project: Project, module: ModuleIndex, forward: ast.Call, model: ast.expr) -> bool:
    """Return whether the model that a call runs, or hands to what runs it, is of a library that switches gradients off
    itself, or its result is read as PyTorch only lets a program read what has none (``output.cpu().numpy()``)."""
    if last_name(model) == "forward" and isinstance(model, ast.Attribute):
        model = model.value
    return _is_gradient_free(project, module, model) or _is_read(module, forward) or _wraps_one(project, module, model)


def _wraps_one(project: Project, module: ModuleIndex, model: ast.expr) -> bool:
    """Return whether a model is of classes of the tree that make such a model, or an engine, and no layers."""
    classes = project.fact(Resolver).classes_of(module, model)
    return bool(classes) and all(_holds_only_engine(project, *one) for one in classes)


@query
def _holds_only_engine(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    rows: tuple[GradientFree, ...] = project.models.rows("gradient-free")
    resolver, found = project.fact(Resolver), False
    for where, one in resolver.mro(module, owner):
        for call in (part for part in walk(one) if isinstance(part, ast.Call)):
            names = resolver.call_names(where, call)
            found = found or any(_makes(project, where, call, row) for row in rows)
            if any(name.startswith(_WEIGHTS) and not name.startswith("torch.nn.functional.") for name in names):
                return False
            if any(isinstance(made.node, ast.ClassDef) for made in resolver.points_to(where, call.func)):
                return False
    return found


@cyclic(False)
def _is_gradient_free(project: Project, module: ModuleIndex, model: ast.expr) -> bool:
    rows: tuple[GradientFree, ...] = project.models.rows("gradient-free")
    made = project.fact(Resolver).points_to(module, model)
    free = [
        ref
        for ref in made
        if isinstance(ref.node, ast.Call)
        and (
            any(_makes(project, ref.module, ref.node, row) for row in rows)
            or ((base := _merged(ref.node)) is not None and _is_gradient_free(project, ref.module, base))
        )
    ]
    rest = [ref for ref in made if ref not in free]
    return bool(free) and (not rest or any(_is_wrapped_by(project, rest, ref) for ref in free))


def _is_wrapped_by(project: Project, models: list[NodeRef], wrapper: NodeRef) -> bool:
    """Return whether models are what a call wraps (``model = PeftModel.from_pretrained(model, adapter)``), and the
    options that this needs (``if adapter:``) are passed by all commands that start the program."""
    call = wrapper.node
    if not isinstance(call, ast.Call) or not call.args:
        return False
    wrapped = project.fact(Resolver).points_to(wrapper.module, call.args[0])
    return all(model in wrapped for model in models) and all(
        wanted and _is_passed(project, wrapper.module, part)
        for test, holds in conditions(wrapper.module, call)
        for part, wanted in parts_of(test, holds)
    )


def _is_passed(project: Project, module: ModuleIndex, test: ast.expr) -> bool:
    """Return whether a test is of an option for which each command passes a value."""
    match test:
        case ast.Compare(left=asked, ops=[ast.IsNot() | ast.NotEq()], comparators=[ast.Constant(value=None | "")]):
            pass
        case ast.Name() | ast.Attribute() | ast.Subscript():
            asked = test
        case _:
            return False
    known = project.fact(Constants).of(module, asked)
    return known.complete and all(value.source == "launcher" and bool(value.value) for value in known.values)


def _merged(call: ast.Call) -> ast.expr | None:
    """``model`` of ``model.merge_and_unload()``, which gives the base model back with its weights as they are"""
    match call.func:
        case ast.Attribute(value=base, attr="merge_and_unload"):
            return base
    return None


def _makes(project: Project, module: ModuleIndex, call: ast.Call, row: GradientFree) -> bool:
    if not matches(row.calls, project.fact(Resolver).call_names(module, call)):
        return False
    plain = keyword_value(call, row.unless) if row.unless else None
    if isinstance(plain, ast.Constant) and not plain.value:
        return False
    trained = keyword_value(call, row.trains) if row.trains else None
    if trained is not None and not (isinstance(trained, ast.Constant) and trained.value is False):
        return False
    return not row.named or bool(call.args and re.match(row.named, ast.unparse(call.args[0])))


def _is_read(module: ModuleIndex, forward: ast.Call) -> bool:
    """Return whether ``numpy`` is called on what a forward pass returns, with nothing between that drops a graph."""
    function = module.function(forward)
    for call in module.calls_by_name.get("numpy", ()):
        if module.function(call) is function and isinstance(call.func, ast.Attribute) and not call.args:
            source = _source(call.func.value)
            if source is forward or (isinstance(source, ast.Name) and _is_result(module, source, forward)):
                return True
    return False


def _source(value: ast.expr) -> ast.expr:
    """Return what a value is computed from, with its graph."""
    while True:
        match value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "F" | "nn"), attr=name), args=[inner, *_]):
                pass
            case ast.Call(func=ast.Attribute(value=inner, attr=name)):
                pass
            case ast.Attribute(value=inner, attr=name) if name not in ("data", "grad"):
                name = "cpu"
            case ast.Subscript(value=inner):
                name = "cpu"
            case _:
                return value
        if name not in _SAME_GRAPH:
            return value
        value = inner


def _is_result(module: ModuleIndex, name: ast.Name, forward: ast.Call) -> bool:
    """Return whether a name is bound to what a forward pass returns, and to nothing else."""
    found = reaching(module, module.scope(name).lookup(name.id), name)
    return bool(found) and all(binding.value is not None and _source(binding.value) is forward for binding in found)
