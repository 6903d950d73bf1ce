"""Models whose weights are frozen, as a whole or up to the head: their forward pass keeps hardly any activations."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import cyclic, query
from gpulint.semantic.argument_binding import RECEIVERS, argument_of
from gpulint.semantic.chosen_returns import is_ruled_out
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.training.weightless_models import has_no_weights, is_layer_without_weights
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, dotted, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_HEAD = regex.compile(r"^(head|heads|fc|classifier|linear|last_linear|probe|cls_head|linear_head|classification_head)$")
_FREEZES = regex.compile(
    r"^_?(freeze(_(all|model|module|net|network|weights|params|parameters))?|set_requires_grad|requires_grad_?|toggle_grad)$"
)
"""Names of what freezes the whole of a model."""
_THAWS = regex.compile(r"^_?(un_?freeze|thaw)")
_LAYERS = frozenset(
    f"torch.nn.{name}"
    for name in "Linear Sequential ReLU GELU SiLU Tanh Sigmoid Dropout LayerNorm BatchNorm1d Identity Flatten".split()
)
"""Layers of a head, which run on one vector for each sample."""
_WEIGHTS = frozenset({"parameters", "named_parameters"})
_PARTS = frozenset({"children", "named_children", "modules", "named_modules"})
_LOOPS = (ast.For, ast.ListComp, ast.Call)


def trains_only_head(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module freezes the weights of a model, and trains or replaces its last layer alone."""
    loops = [loop for loop in module.loops if isinstance(loop, ast.For)]
    frozen = {
        name
        for loop in loops
        if (name := _set_by(loop, False)) and not project.fact(Guards).is_conditional(module, loop)
    }
    thawed = {name for loop in loops if (name := _set_by(loop, True))}
    return bool(frozen) and not frozen & thawed and not frozen.isdisjoint(_with_head(module))


def is_frozen(project: Project, module: ModuleIndex, model: ast.expr) -> bool:
    """Return whether a model has no weights, or all are frozen: by what makes it (the function that returns it,
    ``__init__`` of its class), under the name that it has there, or by the object that holds it where each caller
    passes that."""
    resolver = project.fact(Resolver)
    if _is_frozen_here(project, NodeRef(module, model), dotted(model)) or has_no_weights(project, module, model):
        return True
    if isinstance(model, ast.Name) and _is_held_frozen(project, module, model):
        return True
    match model:
        case ast.Attribute(value=ast.Name(id=name) as whole) if name not in RECEIVERS:
            if is_frozen(project, module, whole):  # ``vae.encode(images)``
                return True
    for made in resolver.points_to(module, model):
        if _is_frozen_here(project, made, _name(made)):
            return True
        makers = resolver.callees(made.module, made.node) if isinstance(made.node, ast.Call) else ()
        if any("self" in _frozen_when_made(project, one, made) for one in makers):
            return True
        if isinstance(made.node, ast.expr) and any(
            _runs_frozen(project, *one) for one in resolver.classes_of(made.module, made.node)
        ):
            return True
    return False


@cyclic(False)
def _runs_frozen(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    """Return whether the forward pass of a class runs nothing but models that are frozen, and layers without weights:
    a moving average, the features for a style loss."""
    run, frozen = _run_in_forward(owner), _frozen_names(project, module, owner)
    rest = [name for name in sorted(run) if f"self.{name}" not in frozen]
    if not rest or any(isinstance(part, ast.Call) and last_name(part.func) == "Parameter" for part in walk(owner)):
        return bool(run) and not rest
    parts = [(value, is_layer_without_weights(project, module, value)) for name in rest for value in _made(owner, name)]
    return (
        all(_made(owner, name) for name in rest)
        and all(without or is_frozen(project, module, value) for value, without in parts)
        and not (len(rest) == len(run) and all(without for _, without in parts))
    )


def _made(owner: ast.ClassDef, name: str) -> list[ast.expr]:
    """Return what a constructor gives an attribute."""
    init = next((part for part in owner.body if isinstance(part, FUNCTIONS) and part.name == "__init__"), None)
    assigned = [part for part in walk(init) if isinstance(part, ast.Assign)] if init is not None else []
    return [one.value for one in assigned if f"self.{name}" in map(dotted, one.targets)]


def ends_in_layers(project: Project, module: ModuleIndex, model: ast.expr) -> bool:
    """Return whether a class of the tree freezes the models that its forward pass runs, but for single layers, which
    keep little for a backward pass."""
    owners = project.fact(Resolver).classes_of(module, model)
    return bool(owners) and all(_has_small_rest(project, *one) for one in owners)


@query
def _has_small_rest(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    run, frozen = _run_in_forward(owner), _frozen_names(project, module, owner)
    rest = {name for name in run if f"self.{name}" not in frozen}
    values = {name: _made(owner, name) for name in rest}
    return len(rest) < len(run) and all(
        bool(made) and all(_is_layer(project, module, value) for value in made) for made in values.values()
    )


def _is_layer(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    """``nn.Linear(512, 10)``, ``nn.Sequential(nn.Dropout(0.1), nn.Linear(512, 10))``"""
    calls = [part for part in walk(value) if isinstance(part, ast.Call)]
    return isinstance(value, ast.Call) and all(
        project.fact(Resolver).call_names(module, one) & _LAYERS for one in calls
    )


def _run_in_forward(owner: ast.ClassDef) -> set[str]:
    """The attributes of a model that its forward pass calls, if it sets any itself."""
    methods = {part.name: part for part in owner.body if isinstance(part, FUNCTIONS)}
    if (forward := methods.get("forward")) is None or "__init__" not in methods:
        return set()
    return {
        part.func.attr
        for part in walk(forward)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and dotted(part.func.value) == "self"
    }


def _is_frozen_here(project: Project, place: NodeRef, name: str) -> bool:
    """Return whether the function around a place, or for an attribute its class, freezes what has that name there, or
    passes it to what freezes it at once (``freeze(build())``)."""
    if name:
        owner = place.module.class_of(place.node) if name.startswith("self.") else place.module.function(place.node)
        if name in _frozen_names(project, place.module, owner or place.module.syntax.tree):
            return True
    up = place.module.syntax.parents.get(place.node)
    while isinstance(up, ast.Call | ast.Attribute):
        if isinstance(up, ast.Call) and _freezes(project, place.module, up):
            return True
        up = place.module.syntax.parents.get(up)
    return False


def _is_held_frozen(project: Project, module: ModuleIndex, model: ast.Name) -> bool:
    """Return whether each caller of a function passes a model that it has frozen itself, or that its holder has
    (``evaluate(ema.module)``)."""
    resolver, function = project.fact(Resolver), module.function(model)
    if function is None or model.id not in {one.arg for one in function.args.args}:
        return False
    passed = [
        (site.module, argument_of(function, site.node, model.id))
        for site in resolver.first_sites(module, function)
        if isinstance(site.node, ast.Call)
    ]
    return bool(passed) and all(
        _is_frozen_here(project, NodeRef(where, given), given.id)
        if isinstance(given, ast.Name)
        else isinstance(given, ast.Attribute)
        and any(
            f"self.{given.attr}" in _frozen_names(project, home, owner)
            for home, owner in resolver.classes_of(where, given.value)
        )
        for where, given in passed
    )


def _name(made: NodeRef) -> str:
    """The variable that gets what was made."""
    up = made.module.syntax.parents.get(made.node)
    while isinstance(up, ast.Call | ast.Attribute):
        up = made.module.syntax.parents.get(up)
    return dotted(up.targets[0]) if isinstance(up, ast.Assign) else ""


def _frozen_when_made(project: Project, callee: NodeRef, made: NodeRef) -> frozenset[str]:
    """Names of models that a constructor freezes with what a call passes (``VAE(test_mode=True)``)."""
    init, call = callee.node, made.node
    if not isinstance(init, FUNCTIONS) or init.name != "__init__" or not isinstance(call, ast.Call):
        return frozenset()
    return _frozen_names(project, callee.module, init, call)


@query
def _frozen_names(
    project: Project, module: ModuleIndex, owner: ast.AST, call: ast.Call | None = None
) -> frozenset[str]:
    """Names of models that a function or class freezes and never thaws; of a function also by a call of it."""
    frozen, thawed = set[str](), set[str]()
    for part in walk(owner):
        if isinstance(owner, ast.Module) and module.function(part) is not None:
            continue
        if not isinstance(part, _LOOPS):
            continue
        if call is not None and isinstance(owner, FUNCTIONS) and is_ruled_out(module, owner, part, call):
            continue
        frozen.add(_set_by(part, False))
        thawed.add(_set_by(part, True))
        if isinstance(part, ast.Call):
            names = {dotted(given) or _weights_of(given)[0] for given in _given_first(part)}
            if isinstance(part.func, ast.Attribute):
                names.add(dotted(part.func.value))
            if _THAWS.search(last_name(part.func)) or _has(part, True):
                thawed |= names
            elif _freezes(project, module, part):
                frozen |= names
    parts = [name.rpartition(".") for name in thawed]
    thawed |= {whole for whole, _, part in parts if not _HEAD.match(part)}
    return frozenset(frozen - thawed - {""})


def _given_first(call: ast.Call) -> list[ast.expr]:
    """Return what a call gets first: a model, or several (``set_requires_grad([encoder, decoder], False)``)."""
    first = call.args[:1]
    return first[0].elts if first and isinstance(first[0], ast.List | ast.Tuple) else first


def _freezes(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call freezes the model whose method it is, or that it gets: ``model.requires_grad_(False)``,
    ``freeze(model)``, or a function of the tree that does so, whatever its name."""
    name = last_name(call.func)
    if name.endswith(("requires_grad", "requires_grad_", "toggle_grad")):
        return _has(call, False)
    named = bool(_FREEZES.match(name))
    own = isinstance(call.func, ast.Attribute) and dotted(call.func.value) == "self" and not call.args
    given = bool(call.args) and bool(dotted(call.args[0]) or _weights_of(call.args[0])[0])
    if not named and not own and not (given and isinstance(call.func, ast.Name | ast.Attribute)):
        return False
    callees = [one for one in project.fact(Resolver).callees(module, call) if isinstance(one.node, FUNCTIONS)]
    if named and not callees:
        return True
    return any(
        _freezes_argument(project, one.module, one.node) or _freezes_by_flag(project, one.module, one.node, call)
        for one in callees
        if isinstance(one.node, FUNCTIONS)
    )


def _freezes_by_flag(project: Project, module: ModuleIndex, function: FunctionNode, call: ast.Call) -> bool:
    """Return whether a call passes ``False`` for what a function sets ``requires_grad`` of all weights of its first
    argument to."""
    return any(
        isinstance(given := argument_of(function, call, flag), ast.Constant) and given.value is False
        for flag in _flags(project, module, function)
    )


@query
def _flags(project: Project, module: ModuleIndex, function: FunctionNode) -> frozenset[str]:
    """The parameters that a function always sets ``requires_grad`` of all weights of its first argument to."""
    if not project.contains(module.path, b"requires_grad"):
        return frozenset()
    names = [one.arg for one in (*function.args.args, *function.args.kwonlyargs)]
    first = set(names[:2] if names[:1] == ["self"] else names[:1])
    loops = [part for part in walk(function) if isinstance(part, ast.For)]
    loops = [loop for loop in loops if not project.fact(Guards).is_conditional(module, loop)]
    return frozenset(flag for flag in names for loop in loops if _set_by(loop, flag) in first)


@query
def _freezes_argument(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a function always freezes all weights of what it is given first (of ``self`` for a method)."""
    if not project.contains(module.path, b"requires_grad"):
        return False
    given = [one.arg for one in function.args.args]
    first = set(given[:2] if given[:1] == ["self"] else given[:1])
    loops = [part for part in walk(function) if isinstance(part, _LOOPS)]
    frozen = {_set_by(loop, False) for loop in loops if not project.fact(Guards).is_conditional(module, loop)}
    return bool(first & frozen) and not any(_set_by(loop, True) for loop in loops)


def _has(call: ast.Call, value: bool) -> bool:
    """Return whether a call that sets ``requires_grad`` is passed a constant."""
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    return bool(_FREEZES.match(last_name(call.func))) and any(
        isinstance(one, ast.Constant) and one.value is value for one in given
    )


def _set_by(loop: ast.AST, wanted: bool | str) -> str:
    """The model all of whose weights a loop sets ``requires_grad`` of to a value, or to a variable of that name; "" for
    any other loop."""
    match loop:
        case ast.For(target=target, iter=given, body=body):
            pass
        case ast.ListComp(elt=element, generators=[ast.comprehension(target=target, iter=given, ifs=[])]):
            body = [ast.Expr(element)]
        case ast.Call(func=ast.Name(id="map"), args=[ast.Lambda(args=ast.arguments(args=[one]), body=element), given]):
            target, body = ast.Name(one.arg), [ast.Expr(element)]
        case _:
            return ""
    model, inner = _weights_of(given)
    if not model:
        return ""
    names = {part.id for part in walk(target) if isinstance(part, ast.Name)}
    if inner:  # ``for child in model.children(): for weight in child.parameters(): ...``
        return model if any(_set_by(part, wanted) in names for part in body) else ""
    return model if any(_sets(part, names, wanted) for part in body) else ""


def _weights_of(given: ast.expr) -> tuple[str, bool]:
    """The model over whose weights a loop runs, and whether it runs over its parts instead."""
    match given:
        case ast.Name(id=name):  # weights that a function gets
            return name, False
        case ast.Call(func=ast.Name(id="list" | "enumerate" | "tuple"), args=[inner]):
            return _weights_of(inner)
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as model, attr=method), args=[]):
            if method in _WEIGHTS or method in _PARTS:
                name = dotted(model)
                return (name if name == "self.module" else name.removesuffix(".module")), method in _PARTS
    return "", False


def _sets(part: ast.stmt, names: set[str], wanted: bool | str) -> bool:
    """``weight.requires_grad = False``, ``weight.requires_grad_(False)``, ``setattr(weight, "requires_grad", ...)``,
    ``weight.detach_()``."""
    match part:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr="requires_grad")], value=given) | ast.Expr(
            ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="requires_grad_"), args=[given], keywords=[])
            | ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="requires_grad_"),
                args=[],
                keywords=[ast.keyword(value=given)],
            )
            | ast.Call(
                func=ast.Name(id="setattr"), args=[ast.Name(id=name), ast.Constant(value="requires_grad"), given]
            )
        ):
            value = given.value if isinstance(given, ast.Constant) else dotted(given)
            return name in names and value == wanted and type(value) is type(wanted)
        case ast.Expr(ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="detach_"), args=[])):
            return name in names and wanted is False
    return False


def _with_head(module: ModuleIndex) -> Iterator[str]:
    """Models whose head the module replaces, or takes the weights of by itself."""
    for node in module.syntax.of(ast.Attribute):
        if _HEAD.match(node.attr):
            up = module.syntax.parents.get(node)
            if isinstance(node.ctx, ast.Store) or (isinstance(up, ast.Attribute) and up.attr in _WEIGHTS):
                yield ast.unparse(node.value)
