"""Which models a program asks DDP to search for unused parameters, and whether it says which classes they have."""

from __future__ import annotations

import ast

from gpulint.documents.base import Document
from gpulint.documents.call_syntax import default_of, keyword_value
from gpulint.documents.python import walk
from gpulint.libraries.downloads import PRETRAINED
from gpulint.project import Project
from gpulint.reasons import is_explained
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import BindingKind, ModuleIndex, NodeRef, last_name

_SEARCH = "find_unused_parameters"
_MOVES = frozenset({"to", "cuda", "train", "half", "bfloat16", "float"})
_LIBRARIES = (
    *PRETRAINED, "torch.", "torchvision.", "torchaudio.", "transformers.", "diffusers.", "peft.",
    "sentence_transformers.", "torch_geometric.", "monai.", "detectron2.", "mmcv.", "mmengine.", "mmdet.", "mmseg.",
    "mmpretrain.", "fairseq.", "lightning.", "pytorch_lightning.", "efficientnet_pytorch.",
    "x_transformers.", "vit_pytorch.",
)  # fmt: skip
"""Packages whose models are made to be trained with DDP."""
_BY_CONFIG = frozenset(f"hydra.utils.{name}" for name in ("instantiate", "call", "get_class", "get_method"))
"""Functions that make what a file of settings names."""


def is_chosen_at_run_time(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether it is unknown which class the model has: it is an attribute without a known class, or made by a
    class that a variable holds (``CLASSES[args.kind]``, ``find_class(config)``), or by what a file of settings says."""
    if not call.args:
        return False
    resolver = project.fact(Resolver)
    if isinstance(call.args[0], ast.Attribute) and not resolver.classes_of(module, call.args[0]):
        return True
    made = resolver.points_to(module, call.args[0])
    return any(isinstance(ref.node, ast.Call) and _has_unknown_class(project, ref.module, ref.node) for ref in made)


def _has_unknown_class(project: Project, module: ModuleIndex, made: ast.Call) -> bool:
    resolver = project.fact(Resolver)
    if resolver.call_names(module, made) & _BY_CONFIG:
        return True
    maker: ast.expr = made.func
    while isinstance(maker, ast.Attribute) and not isinstance(maker.value, ast.Name | ast.Attribute):
        maker = maker.value  # `CLASSES[kind].from_pretrained`
    if isinstance(maker, ast.Attribute) and isinstance(maker.value, ast.Name):
        maker = maker.value
    if isinstance(maker, ast.Name):
        bindings = module.scope(maker).lookup(maker.id)
        if not bindings or any(binding.kind is not BindingKind.ASSIGN for binding in bindings):
            return False
    elif not isinstance(maker, ast.Subscript):
        return False
    origins = {ref for ref in resolver.points_to(module, maker) if not isinstance(ref.node, ast.ClassDef)}
    if len(origins) > 1:
        return True
    return any(_is_looked_up(project, origin) for origin in origins)


def _is_looked_up(project: Project, origin: NodeRef) -> bool:
    """Return whether a class is what a table has under some name, or what a function finds; a module that is looked
    through by name is known (``models.__dict__[name]``), unless it is itself imported by one."""
    match origin.node:
        case ast.Subscript(value=ast.Attribute(attr="__dict__")):
            return False
        case ast.Call(func=ast.Name(id="getattr"), args=[base, *_]):
            homes = project.fact(Resolver).points_to(origin.module, base)
            return any(isinstance(home.node, ast.Call) for home in homes)
        case ast.Call(func=func):
            return last_name(func) != "partial"
        case ast.Subscript():
            return True
    return False


def unreadable(project: Project, module: ModuleIndex, call: ast.Call) -> str:
    """Return the model of a wrapper, or of one beside it with the same search, whose class is not to be read: it comes
    from a package outside the tree that is no known library, or is one of a list; empty if there is none."""
    searched = [other for other in _beside(module, call) if keyword_value(other, _SEARCH) is not None]
    for one in (call, *searched):
        if one.args and (name := _unread(project, module, one.args[0])):
            return name
    return ""


def _unread(project: Project, module: ModuleIndex, model: ast.expr) -> str:
    while isinstance(model, ast.Call) and isinstance(model.func, ast.Attribute) and model.func.attr in _MOVES:
        model = model.func.value
    resolver = project.fact(Resolver)
    if resolver.classes_of(module, model):
        return ""
    if isinstance(model, ast.Subscript):
        return ast.unparse(model)
    for made in resolver.points_to(module, model):
        if not isinstance(made.node, ast.Call) or resolver.callees(made.module, made.node):
            continue
        names = resolver.call_names(made.module, made.node)
        if names and not any(name.startswith(_LIBRARIES) or "." not in name for name in names):
            return last_name(made.node.func)
    return ""


def default_of_search(project: Project, module: ModuleIndex, value: ast.expr) -> ast.Constant | str | None:
    """Return the default that asks for the search, where a call passes on a parameter of its function; why that may not
    change if callers ask for the search themselves; None if it is no parameter."""
    function = module.function(value)
    if not isinstance(value, ast.Name) or function is None or value.id not in parameters(function):
        return None
    default, name = default_of(function.args, value.id), getattr(function, "name", "its function")
    sites = project.fact(Resolver).call_sites(module, function)
    passed = any(isinstance(site.node, ast.Call) and argument_of(function, site.node, value.id) for site in sites)
    if passed or not isinstance(default, ast.Constant) or len(module.scope(value).lookup(value.id)) > 1:
        return f"the callers of `{name}` ask for the search; see there whether they need it"
    return default


def is_only_one_searched(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the same function wraps another model without a search."""
    return any(
        keyword_value(other, _SEARCH) is None and ast.unparse(other.args[0]) != ast.unparse(call.args[0])
        for other in _beside(module, call)
    )


def also_searched(document: Document, module: ModuleIndex, call: ast.Call) -> list[ast.Call]:
    """The other calls that wrap the same model in the same function, in another branch, with a search for which no
    comment gives a reason."""
    return [
        other
        for other in _beside(module, call)
        if ast.unparse(other.args[0]) == ast.unparse(call.args[0])
        and isinstance(given := keyword_value(other, _SEARCH), ast.Constant)
        and given.value is True
        and not is_explained(document, module.syntax.span(given))
    ]


def _beside(module: ModuleIndex, call: ast.Call) -> list[ast.Call]:
    """The other calls of the same wrapper in the same function, or at the top of the module."""
    if not call.args:
        return []
    home = module.function(call)
    return [
        other
        for other in module.calls_by_name.get(last_name(call.func), [])
        if other is not call and other.args and module.function(other) is home and _has_no_settings(other)
    ]


def _has_no_settings(call: ast.Call) -> bool:
    """Return whether all that a call is given is written out."""
    return not any(keyword.arg is None for keyword in call.keywords) and not any(
        isinstance(part, ast.Starred) for argument in call.args for part in walk(argument)
    )
