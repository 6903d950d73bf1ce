"""What runs beside a forward pass, or in it, and may need its gradients though the tree does not show it."""

from __future__ import annotations

import ast
import re
from collections.abc import Container
from itertools import islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.differentiation import takes_gradients
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, ModuleIndex, dotted, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_FILES = 40
"""Most files that are searched for models that differentiate."""
MAX_WRAPPERS = 2
"""Most objects in each other around a model."""
MAX_PARTS = 40
"""Most functions of a forward pass that are searched for parts of which nothing is known."""
_DERIVATIVES = regex.compile(
    r"(compute_|pred(icted)?_)?(forces?|stress(es)?|virials?|hessians?|neg_dy)(_pred)?$", re.IGNORECASE
)
"""What models of atoms compute as derivatives of an energy."""
_POTENTIALS = regex.compile(r"^(chgnet|torchmdnet|mace|nequip|allegro|sevenn|matgl|alignn|schnetpack|deepmd|hippynn)\.")
"""Packages whose models differentiate the energies that they predict, for forces."""
_WRAPS = regex.compile(r"(^|\.)(torch|accelerate|lightning|deepspeed|apex|timm|tqdm|torchmetrics|torchinfo|thop)\.")
"""Packages whose objects get a model, and take no gradients of their own accord."""
_TRAINS = regex.compile(
    r"(^|_)(back_?prop(agat\w+)?|optimi[sz]e|minimi[sz]e|train(ing)?_(step|batch))(_|$)"
    r"|(^|_)backward(_(step|pass|and_step|loss))?$|^_?adapt$"
)
"""Functions and methods that propagate the loss which they get."""
_TRAINER = regex.compile(r"optim|strateg|trainer|learner|updater|engine|stepper|solver", re.IGNORECASE)
"""Objects that propagate a loss (``strategy.update(loss)``)."""
_ADAPTS = regex.compile(r"\.[A-Z]\w*$")
"""Classes, by their names."""
_VALUES = frozenset({BindingKind.ASSIGN, BindingKind.LOOP})
_LOADS = frozenset({"torch.load", "torch.jit.load"})
_BUILDS = frozenset({"instantiate", "instantiate_from_config", "build_from_cfg", "build_from_config"})
"""Functions of libraries that make what a configuration names."""


def may_need_gradients(project: Project, module: ModuleIndex, region: ast.AST, forward: ast.Call, model: str) -> bool:
    """Return whether something in a region of a function may differentiate what ``forward`` computes: an object of
    another package that was made of the model (``extractor = LayerCAM(model)``), a function out of a table that gets
    the model (``ATTACKS[name](model, x, y)``), what trains by its name, or the model itself, of which nothing is
    known."""
    calls = [part for part in walk(region) if isinstance(part, ast.Call)]
    if any(_runs_what_holds(project, module, call, model) or _may_train(project, module, call) for call in calls):
        return True
    if any(call is not forward and _gets(call, {model}) and _may_be_any(project, module, call) for call in calls):
        return True
    if any(_is_chosen(project, module, call) for call in calls) and _functions_that_differentiate(project):
        return True
    if _is_made_to_differentiate(project, module, forward) or _may_have_part_that_does(project, module, forward):
        return True
    return not _is_known(project, module, forward) and (
        any(_names_derivative(part) for part in walk(region)) or bool(_models_that_differentiate(project))
    )


def _runs_what_holds(project: Project, module: ModuleIndex, call: ast.Call, model: str) -> bool:
    """``extractor(scores)``, ``explainer.shap_values(x)``, ``attack(wrapped, x, y)``"""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    objects = [owner]
    if not project.fact(Resolver).callees(module, call):
        objects += [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(
        isinstance(one, ast.Name) and one.id != model and _is_made_of(project, module, one, model) for one in objects
    )


def _may_train(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a function that is not in the tree, or a method of an unknown object, propagates what it gets, as
    its name says: ``strategy.optimize(loss)``, ``engine.step(loss)``."""
    if not call.args or project.fact(Resolver).callees(module, call):
        return False
    owner = last_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    name = last_name(call.func)
    return bool(_TRAINS.search(name)) or (name in ("step", "update") and bool(_TRAINER.search(owner)))


def _is_made_of(project: Project, module: ModuleIndex, name: ast.Name, model: str, depth: int = MAX_WRAPPERS) -> bool:
    """Return whether another package makes an object of the model, or of such an object (``Attack(Wrap(model))``)."""
    resolver = project.fact(Resolver)
    for made in resolver.points_to(module, name):
        if not isinstance(made.node, ast.Call) or made.path or resolver.callees(made.module, made.node):
            continue
        if any(map(_WRAPS.search, resolver.call_names(made.module, made.node))):
            continue
        given = [*made.node.args, *(keyword.value for keyword in made.node.keywords)]
        if model.rpartition(".")[2] in {last_name(one) for one in given if dotted(one)}:
            return True
        if depth and any(
            isinstance(one, ast.Name) and _is_made_of(project, made.module, one, model, depth - 1) for one in given
        ):
            return True
    return False


def _is_chosen(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call runs a parameter of its function for which a caller passes what it looks up by a name
    (``train(model, loader, getattr(losses, args.loss))``)."""
    resolver, function = project.fact(Resolver), module.function(call)
    if not isinstance(call.func, ast.Name) or not call.args or not isinstance(function, ast.FunctionDef):
        return False
    if call.func.id not in _parameters(function) or resolver.callees(module, call):
        return False
    return any(
        (given := argument_of(function, site.node, call.func.id)) is not None and _is_looked_up(site.module, given)
        for site in resolver.first_sites(module, function)
        if isinstance(site.node, ast.Call)
    )


def _is_made_to_differentiate(project: Project, module: ModuleIndex, forward: ast.Call) -> bool:
    """Return whether a package makes the model that differentiates in its forward pass: a potential that predicts
    forces, or what gets an optimizer to adapt a model to each batch (``Tent(model, optimizer)``)."""
    resolver = project.fact(Resolver)
    for made in resolver.points_to(module, _run_by(forward)):
        if not isinstance(made.node, ast.Call) or made.path or resolver.callees(made.module, made.node):
            continue
        names = resolver.call_names(made.module, made.node)
        if any(map(_POTENTIALS.match, names)):
            return True
        if not any(map(_WRAPS.search, names)) and any(map(_ADAPTS.search, names)):
            given = [*made.node.args, *(keyword.value for keyword in made.node.keywords)]
            if any(_is_optimizer(project, made.module, one) for one in given):
                return True
    return False


def _is_optimizer(project: Project, module: ModuleIndex, given: ast.expr) -> bool:
    resolver = project.fact(Resolver)
    makers = [(module, given), *((one.module, one.node) for one in resolver.points_to(module, given))]
    return any(
        name.startswith("torch.optim.")
        for where, node in makers
        if isinstance(node, ast.Call)
        for name in resolver.call_names(where, node)
    )


def _gets(call: ast.Call, names: Container[str]) -> bool:
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    return any(dotted(one.value if isinstance(one, ast.Starred) else one) in names for one in given)


def _may_be_any(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call runs a function that is unknown since it was looked up in a table or by its name, or one of
    the tree that hands its parameters to such a function."""
    functions = [ref for ref in project.fact(Resolver).callees(module, call) if isinstance(ref.node, ast.FunctionDef)]
    if not functions:
        return _is_looked_up(module, call.func)
    return any(
        _gets(inner, _parameters(one.node))
        and _is_looked_up(one.module, inner.func)
        and not project.fact(Resolver).callees(one.module, inner)
        for one in functions
        if isinstance(one.node, ast.FunctionDef)
        for inner in one.module.calls_of(one.node)
    )


def _parameters(function: ast.FunctionDef) -> frozenset[str]:
    given = function.args
    more = [one for one in (given.vararg, given.kwarg) if one is not None]
    return frozenset(one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, *more))


def _is_looked_up(module: ModuleIndex, function: ast.expr) -> bool:
    """``ATTACKS[name]``, ``ATTACKS.get(name)``, ``getattr(attacks, name)``, also by way of a variable"""
    match function:
        case ast.Subscript() | ast.Call(func=ast.Name(id="getattr") | ast.Attribute(attr="get")):
            return True
        case ast.Name(id=name):
            bound = reaching(module, module.scope(function).lookup(name), function)
            return any(
                one.value is not None and not isinstance(one.value, ast.Name) and _is_looked_up(module, one.value)
                for one in bound
                if one.kind is BindingKind.ASSIGN and not one.path
            )
    return False


def _is_known(project: Project, module: ModuleIndex, forward: ast.Call) -> bool:
    """Return whether the model that a call runs is of a class of the tree, or made by a function that has a name."""
    model = _run_by(forward)
    resolver = project.fact(Resolver)
    if resolver.classes_of(module, model):
        return True
    made = resolver.points_to(module, model)
    return bool(made) and all(
        isinstance(ref.node, ast.Call)
        and any(
            "." in name and name not in _LOADS and name.rpartition(".")[2] not in _BUILDS
            for name in resolver.call_names(ref.module, ref.node)
        )
        for ref in made
    )


def _run_by(forward: ast.Call) -> ast.expr:
    """Return the model of ``model(x)`` and ``model.forward(x)``."""
    model = forward.func
    return model.value if isinstance(model, ast.Attribute) and model.attr == "forward" else model


def _names_derivative(part: ast.AST) -> bool:
    match part:
        case ast.Constant(value=str(name)) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
            return bool(_DERIVATIVES.match(name))
    return False


def _may_have_part_that_does(project: Project, module: ModuleIndex, forward: ast.Call) -> bool:
    """Return whether the forward pass of a model of the tree runs a part of which nothing is known (``head(inputs,
    energy)`` for each of ``self.heads``), and one of the tree's that gets as much differentiates."""
    counts = _models_that_differentiate(project)
    resolver = project.fact(Resolver)
    todo = [resolver.method(*owner, "forward") for owner in resolver.classes_of(module, _run_by(forward))]
    done: set[ast.AST] = set()
    while counts and todo and len(done) < MAX_PARTS:
        found = todo.pop()
        if found is None or not isinstance(found.node, FUNCTIONS) or found.node in done:
            continue
        done.add(found.node)
        for call in found.module.calls_of(found.node):
            callees = resolver.callees(found.module, call)
            todo += callees
            if not callees and len(call.args) + len(call.keywords) in counts and _is_part(project, found.module, call):
                return True
    return False


def _is_part(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call of a method runs something that the object may hold, and that no library makes."""
    run = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    if isinstance(run, ast.Name):
        bound = module.scope(call).lookup(run.id)
        if not bound or any(one.kind not in _VALUES for one in bound):
            return False
    elif dotted(run) != f"self.{last_name(run)}" or not project.fact(Resolver).points_to(module, call.func):
        return False
    return not _is_known(project, module, call)


@query
def _models_that_differentiate(project: Project) -> frozenset[int]:
    """Return the numbers of arguments with which models of the tree run that take gradients in their forward pass."""
    words = (b"autograd", b"backward")
    files = dict.fromkeys(path for word in words for path in islice(project.word_index.mentioning(word), MAX_FILES))
    counts: set[int] = set()
    for path in files:
        module = None if project.is_test(path) else project.module_at(path)
        for owner in module.classes if module is not None else ():
            assert module is not None
            forwards = (part for part in owner.body if isinstance(part, ast.FunctionDef) and part.name == "forward")
            for function in forwards:
                if takes_gradients(project, module, function):
                    most = len(function.args.args) - 1
                    counts.update(range(most - len(function.args.defaults), most + 1))
    return frozenset(counts)


@query
def _functions_that_differentiate(project: Project) -> bool:
    """Return whether a function of the tree computes derivatives of what it gets, other than for a step."""
    for path in islice(project.word_index.mentioning(b"autograd"), MAX_FILES):
        module = None if project.is_test(path) else project.module_at(path)
        if module is not None and any(module.function(call) for call in module.calls_where("grad".__eq__)):
            return True
    return False
