"""What runs beside a forward pass, or in it, and may need its gradients though the tree does not show it."""

from __future__ import annotations

import ast
import re
from itertools import islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.differentiation import takes_gradients
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, dotted, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_FILES = 40
"""Most files that are searched for models that differentiate."""
_DERIVATIVES = regex.compile(
    r"(compute_|pred(icted)?_)?(forces?|stress(es)?|virials?|hessians?)(_pred)?$", re.IGNORECASE
)
"""What models of atoms compute as derivatives of an energy."""
_WRAPS = regex.compile(r"(^|\.)(torch|accelerate|lightning|deepspeed|apex|timm|tqdm|torchmetrics|torchinfo|thop)\.")
"""Packages whose objects get a model, and take no gradients of their own accord."""


def may_need_gradients(project: Project, module: ModuleIndex, region: ast.AST, forward: ast.Call, model: str) -> bool:
    """Return whether something in a region of a function may differentiate what ``forward`` computes: an object of
    another package that was made of the model (``extractor = LayerCAM(model)``), or the model itself, of which nothing
    is known."""
    if any(_is_made_of(project, module, call, model) for call in walk(region) if isinstance(call, ast.Call)):
        return True
    return not _is_known(project, module, forward) and (
        any(_names_derivative(part) for part in walk(region)) or bool(_models_that_differentiate(project))
    )


def _is_made_of(project: Project, module: ModuleIndex, call: ast.Call, model: str) -> bool:
    """``extractor(scores)``, ``explainer.shap_values(x)``"""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    if not isinstance(owner, ast.Name) or owner.id == model:
        return False
    resolver = project.fact(Resolver)
    for made in resolver.points_to(module, owner):
        if not isinstance(made.node, ast.Call) or made.path or resolver.callees(made.module, made.node):
            continue
        given = {last_name(one) for one in made.node.args if dotted(one)}
        names = resolver.call_names(made.module, made.node)
        if model.rpartition(".")[2] in given and not any(map(_WRAPS.search, names)):
            return True
    return False


def _is_known(project: Project, module: ModuleIndex, forward: ast.Call) -> bool:
    """Return whether the model that a call runs is of a class of the tree, or made by a function that has a name."""
    model = forward.func
    if isinstance(model, ast.Attribute) and model.attr == "forward":
        model = model.value
    resolver = project.fact(Resolver)
    if resolver.classes_of(module, model):
        return True
    made = resolver.points_to(module, model)
    return bool(made) and all(
        isinstance(ref.node, ast.Call)
        and any("." in name and name != "torch.load" for name in resolver.call_names(ref.module, ref.node))
        for ref in made
    )


def _names_derivative(part: ast.AST) -> bool:
    match part:
        case ast.Constant(value=str(name)) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
            return bool(_DERIVATIVES.match(name))
    return False


@query
def _models_that_differentiate(project: Project) -> bool:
    """Return whether a model of the tree takes gradients in its forward pass."""
    for path in islice(project.word_index.mentioning(b"autograd"), MAX_FILES):
        module = None if project.is_test(path) else project.module_at(path)
        for owner in module.classes if module is not None else ():
            assert module is not None
            forwards = (part for part in owner.body if isinstance(part, FUNCTIONS) and part.name == "forward")
            if any(takes_gradients(project, module, function) for function in forwards):
                return True
    return False
