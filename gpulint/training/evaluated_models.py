"""Models in evaluation mode: from which call on one is, and which calls run it with gradients enabled."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.path_conditions import contexts_of
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, dotted, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_HARMLESS = frozenset(
    (
        "autocast amp_autocast autocast_ctx record_function profile open suppress tqdm device stream nullcontext Timer "
        "redirect_stdout staticmethod classmethod record wraps property dataclass define final override abstractmethod "
        "typechecked beartype jaxtyped"
    ).split()
)
"""Context managers and decorators that leave gradients as they are; any other may switch them off."""
_REGISTERS = regex.compile(r"^(register(_\w+)?|command|option|argument|main)$")
"""Decorators that put a function into a table, or make it a program (click, Hydra)."""
_SWITCHES = frozenset(
    "set_grad_enabled requires_grad_ requires_grad volatile autograd grad vjp jvp enable_grad".split()
)
"""Words by which a function says that it deals with gradients itself."""
_DISABLING = frozenset({"no_grad", "inference_mode", "set_grad_enabled"})
MAX_CALLS = 2
"""How many calls deep a forward pass is looked at."""
_TRAINS = frozenset({"backward", "step", "zero_grad", "train", "eval", "manual_backward"})
"""Methods by which a function trains a model, or sets how it runs."""
_FORWARD = frozenset({"forward", "encode", "decode"})

_EXPLAINS = regex.compile(
    r"grad_?cam|(layer|eigen)_?cam|saliency|adversar|attack|attribution|integrated_?gradients|deep_?lift|(^|_)shap(_|$)"
    r"|fgsm|(^|_)pgd(_|$)|fast_gradient|projected_gradient|deep_?fool|hessian|^Laplace$",
    re.IGNORECASE,
)
"""Methods that need the gradients of what they explain or fool."""


def evaluated(project: Project, module: ModuleIndex) -> Iterator[tuple[ast.Call, str]]:
    """Yield calls from which on a model is in evaluation mode, and its name: ``model.eval()``, ``model =
    Net().cuda().eval()``, ``model = load(path)`` of a function that returns such a model."""
    for mode in module.calls_by_name.get("eval", []):
        if mode.args or not isinstance(mode.func, ast.Attribute):
            continue
        if model := dotted(mode.func.value) or _assigned(module, mode):
            yield mode, model
        function = module.function(mode)
        if (
            function is not None
            and not speaks_of_gradients(module, function)
            and _returns(project, module, function, mode, model)
        ):
            for site in project.fact(Resolver).call_sites(module, function):
                if site.module is module and isinstance(site.node, ast.Call) and (name := _assigned(module, site.node)):
                    yield site.node, name


def _assigned(module: ModuleIndex, call: ast.Call) -> str:
    """The one name that gets what a call returns, else ''."""
    match module.syntax.parents.get(call):
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]):
            return dotted(target)
    return ""


def _returns(project: Project, module: ModuleIndex, function: FunctionNode, mode: ast.Call, model: str) -> bool:
    """Return whether a function hands back the model that it has set to evaluate."""
    returned = project.fact(Resolver).returns(function)
    trains = any(dotted(call.func) == f"{model}.train" for call in module.calls_of(function))
    return (
        bool(returned)
        and not trains
        and all(value is mode or (bool(model) and dotted(value) == model) for value in returned)
    )


@query
def speaks_of_gradients(module: ModuleIndex, function: FunctionNode) -> bool:
    for node in walk(function):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name == "requires_grad" and isinstance(getattr(node, "ctx", None), ast.Load):
            continue  # the parameters that an optimizer gets
        if name == "autograd" and getattr(module.syntax.parents.get(node), "attr", "") == "Variable":
            continue  # an old name of tensors
        if name in _SWITCHES or _EXPLAINS.search(name) or (isinstance(node, ast.keyword) and node.arg in _SWITCHES):
            return True
    return False


def runs(project: Project, module: ModuleIndex, call: ast.Call, model: str) -> bool:
    """``model.forward(x)``, or a function of the tree that gets the model and calls it with gradients enabled."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "forward" and dotted(call.func.value) == model:
        return True
    if isinstance(call.func, ast.Attribute) and dotted(call.func.value) == model:
        return _runs_method(project, module, call, model)
    if model.startswith("self.") and dotted(call.func).startswith("self."):
        return _runs_held(project, module, call, model)
    passed = [index for index, argument in enumerate(call.args) if dotted(argument) == model]
    if not passed:
        return False
    for callee in project.fact(Resolver).callees(module, call):
        function = callee.node
        if (
            not isinstance(function, FUNCTIONS)
            or speaks_of_gradients(callee.module, function)
            or passed[0] >= len(function.args.args)
        ):
            continue
        name = function.args.args[passed[0]].arg
        for inner in callee.module.calls_of(function):
            if _is_forward(inner, name) or _runs_method(project, callee.module, inner, name):
                return not may_disable(callee.module, inner, function)
    return False


def _runs_held(project: Project, module: ModuleIndex, call: ast.Call, model: str) -> bool:
    """Return whether each method that ``self.predict(x)`` may call runs the model of its object with
    gradients enabled (``self.model(x)``), and neither trains it nor sets how it runs."""
    callees = project.fact(Resolver).callees(module, call)
    return bool(callees) and all(
        isinstance(callee.node, FUNCTIONS) and _only_runs(project, callee.module, callee.node, model)
        for callee in callees
    )


def trains_or_sets_mode(module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a function trains a model, or sets how one runs."""
    return any(last_name(call.func) in _TRAINS for call in module.calls_of(function))


@query
def _only_runs(project: Project, module: ModuleIndex, function: FunctionNode, model: str) -> bool:
    if speaks_of_gradients(module, function) or [one.arg for one in function.args.args[:1]] != ["self"]:
        return False
    if trains_or_sets_mode(module, function):
        return False
    forward = next((call for call in module.calls_of(function) if _is_forward(call, model)), None)
    return (
        forward is not None
        and not may_disable(module, forward, function)
        and not forward_disables(project, module, forward)
    )


def _runs_method(project: Project, module: ModuleIndex, call: ast.Call, model: str) -> bool:
    """``model.generate(x)``, a method of a model of the tree that runs it or parts of it with gradients enabled."""
    if not isinstance(call.func, ast.Attribute) or dotted(call.func.value) != model:
        return False
    resolver = project.fact(Resolver)
    for where, owner in resolver.classes_of(module, call.func.value):
        method = resolver.method(where, owner, call.func.attr)
        if method is not None and (_runs_itself(method) or _runs_parts(project, where, owner, method)):
            return True
    return False


def _runs_parts(project: Project, where: ModuleIndex, owner: ast.ClassDef, method: NodeRef) -> bool:
    """Return whether a method of a module (``torch.nn.Module``) calls parts of it (``self.encoder(x)``) with gradients
    enabled."""
    resolver, function = project.fact(Resolver), method.node
    if not isinstance(function, FUNCTIONS) or speaks_of_gradients(method.module, function):
        return False
    if not any(base.endswith(("nn.Module", "LightningModule")) for base in resolver.base_names(where, owner)):
        return False
    calls = method.module.calls_of(function)
    if any(last_name(call.func) == "backward" for call in calls):
        return False
    for call in calls:
        if isinstance(call.func, ast.Attribute) and dotted(call.func.value) == "self" and call.args:
            held = resolver.class_attribute(where, owner, call.func.attr)
            made = held and not any(isinstance(binding.node, FUNCTIONS) for _, binding in held)
            if made and not may_disable(method.module, call, function):
                return True
    return False


def _runs_itself(method: NodeRef) -> bool:
    """Return whether a method of a model only calls ``self`` with gradients enabled."""
    function = method.node
    if not isinstance(function, FUNCTIONS) or not function.args.args or speaks_of_gradients(method.module, function):
        return False
    calls = method.module.calls_of(function)
    name = function.args.args[0].arg
    runs = next((call for call in calls if _is_forward(call, name)), None)
    return runs is not None and not (
        may_disable(method.module, runs, function) or any(last_name(call.func) == "backward" for call in calls)
    )


def forward_disables(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the class of the model that a call runs disables gradients in its ``forward``, or in a part of it,
    by itself or in methods and parts of its own that it calls."""
    return any(
        method is not None and _disables(project, method, MAX_CALLS)
        for where, owner in project.fact(Resolver).classes_of(module, call.func)
        for method in (project.fact(Resolver).method(where, owner, name) for name in ("forward", "__call__"))
    )


@query
def _disables(project: Project, method: NodeRef, calls: int) -> bool:
    if not isinstance(method.node, FUNCTIONS):
        return False
    inside = (context for part in walk(method.node) for context in contexts_of(part))
    if any(last_name(context) in _DISABLING for context in inside) or _wraps(project, method, method.node):
        return True
    own = (call for call in method.module.calls_of(method.node) if calls and dotted(call.func).startswith("self."))
    return any(_disables(project, one, calls - 1) for call in own for one in _run_by(project, method.module, call))


def _run_by(project: Project, module: ModuleIndex, call: ast.Call) -> list[NodeRef]:
    """The methods that ``self.encode(x)`` calls, or the forward passes of the part that it runs."""
    resolver = project.fact(Resolver)
    parts = (resolver.method(*one, "forward") for one in resolver.classes_of(module, call.func))
    return [*resolver.callees(module, call), *(one for one in parts if one is not None)]


def _wraps(project: Project, method: NodeRef, function: FunctionNode) -> bool:
    """Return whether a decorator of the tree speaks of switching gradients off."""
    made = (ref for one in function.decorator_list for ref in project.fact(Resolver).points_to(method.module, one))
    return any(isinstance(ref.node, FUNCTIONS) and names_switch(ref.node) for ref in made)


def names_switch(function: ast.AST) -> bool:
    """Return whether a function or class names what switches gradients off."""
    return any(isinstance(part, ast.Name | ast.Attribute) and last_name(part) in _DISABLING for part in walk(function))


def _is_forward(call: ast.Call, model: str) -> bool:
    func = call.func
    return dotted(func) == model or (
        isinstance(func, ast.Attribute) and func.attr in _FORWARD and dotted(func.value) == model
    )


def may_disable(module: ModuleIndex, node: ast.AST, function: FunctionNode | None) -> bool:
    """Return whether a ``with`` block or decorator around ``node`` may switch gradients off."""
    for up in module.syntax.ancestors(node):
        names = map(last_name, contexts_of(up))
        if any(name not in _HARMLESS and not _REGISTERS.match(name) for name in names):
            return True
        if up is function:
            break
    return False
