"""Data sets whose samples are tensors that record gradients: workers can neither collate nor send them.

In a worker ``default_collate`` stacks into shared memory (``torch.stack(batch, out=...)``), which autograd refuses.
What another collate function stacks is no leaf, which cannot be sent to another process.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.semantic.points_to import Resolver
from gpulint.workload.dataset_work import sets_of
from gpulint.workload.gpu_samples import kept_attributes, reached
from gpulint.workspace.module_index import last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import ModuleIndex

_ENDS = frozenset({"detach", "detach_", "data", "numpy", "item", "tolist", "backward", "grad"})
"""What takes a value from a tensor that records, or computes the gradients there."""
_WITHOUT = frozenset({"no_grad", "inference_mode", "set_grad_enabled", "requires_grad", "requires_grad_"})
_LEARNT = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Embedding"})
_MODEL = regex.compile(r"^(torchvision\.models\.\w+|(\w+\.)*\w{1,80}(Model|For[A-Z])\w{0,80}\.from_pretrained)$")


def have_gradients(project: Project, loader: Loader) -> bool:
    """Return whether a data set makes its samples with ``requires_grad=True``, and does not detach them."""
    resolver = project.fact(Resolver)
    return any(
        _records(owner)
        for source in sets_of(project, loader)
        if isinstance(source.node, ast.expr)
        for _, owner in resolver.classes_of(source.module, source.node)
    )


def are_learnt(project: Project, loader: Loader) -> bool:
    """Return whether samples of a data set are made of its parameters, which the training updates by their gradients
    (``self.poses(index)`` of an ``nn.Embedding``): no worker could do so."""
    return _are_made_with(project, loader, lambda names: not _LEARNT.isdisjoint(names))


def run_recording_model(project: Project, loader: Loader) -> bool:
    """Return whether a data set runs a model for its samples that records gradients."""
    return _are_made_with(project, loader, lambda names: any(map(_MODEL.search, names)))


def _are_made_with(project: Project, loader: Loader, test: Callable[[Iterable[str]], bool]) -> bool:
    resolver = project.fact(Resolver)
    return any(
        _uses_attribute(owner, {name for name, made in kept_attributes(owner) if _passes(project, where, made, test)})
        for source in sets_of(project, loader)
        if isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node)
    )


def _passes(project: Project, module: ModuleIndex, made: ast.expr, test: Callable[[Iterable[str]], bool]) -> bool:
    if not isinstance(made, ast.Call) or any(word.arg == "requires_grad" for word in made.keywords):
        return False
    return test(project.fact(Resolver).call_names(module, made))


def _uses_attribute(owner: ast.ClassDef, kept: set[str]) -> bool:
    """Return whether a class makes its samples with an attribute, and nothing in it keeps gradients from being
    recorded."""
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    if not kept or (get := methods.get("__getitem__")) is None:
        return False
    parts = [part for method in reached(methods, get) for part in walk(method)]
    return any(_is_run(part, kept) for part in parts) and not (
        any(isinstance(part, ast.Attribute) and part.attr in _ENDS for part in parts)
        or any(isinstance(part, ast.Name | ast.Attribute) and last_name(part) in _WITHOUT for part in walk(owner))
    )


def _is_run(part: ast.AST, kept: set[str]) -> bool:
    """``self.model(image)``, ``self.model.encode_image(image)``, ``self.codes[index]``"""
    match part:
        case (
            ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name))
            | ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=name))
            | ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name)))
        ):
            return name in kept
    return False


def _records(owner: ast.ClassDef) -> bool:
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    if (get := methods.get("__getitem__")) is None:
        return False
    parts = [part for method in reached(methods, get) for part in walk(method)]
    return any(map(_is_recorded, parts)) and not any(
        isinstance(part, ast.Attribute) and part.attr in _ENDS for part in parts
    )


def _is_recorded(part: ast.AST) -> bool:
    """``torch.tensor(values, requires_grad=True)``, ``image.requires_grad_()``, ``image.requires_grad = True``"""
    match part:
        case ast.Call(func=ast.Attribute(attr="requires_grad_"), args=[], keywords=[]):
            return True
        case ast.Call(keywords=keywords):
            return any(
                keyword.arg == "requires_grad" and getattr(keyword.value, "value", None) is True for keyword in keywords
            )
        case ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=ast.Constant(value=True)):
            return True
    return False
