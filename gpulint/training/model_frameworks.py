"""Models that are not PyTorch's, or no models, in modules that import PyTorch as well."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.libraries import Models
from gpulint.libraries.frameworks import EagerFramework
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex


class EagerPackages:
    """The packages of all frameworks with models that look like PyTorch's."""

    def __init__(self, models: Models) -> None:
        rows: tuple[EagerFramework, ...] = models.rows("eager-framework")
        self.names = frozenset(name for row in rows for name in row.packages)
        self.without_detach = frozenset(name for row in rows if not row.detaches for name in row.packages)


def has_no_detach(project: Project, module: ModuleIndex) -> bool:
    """Return whether the tensors of a module are of a framework without PyTorch's ``detach``."""
    return not module.packages.isdisjoint(project.models.derived(EagerPackages).without_detach)


def may_be_of_another_framework(project: Project, module: ModuleIndex, forward: ast.Call) -> bool:
    """Return whether the model that a call runs has a class of another framework, or a class of unknown origin in a
    module that imports one; or is no model, but something else with an ``eval`` of its own."""
    model = forward.func
    if isinstance(model, ast.Attribute) and model.attr == "forward":
        model = model.value
    others = project.models.derived(EagerPackages).names
    resolver = project.fact(Resolver)
    classes = resolver.classes_of(module, model)
    if classes and all(_sets_mode_alone(project, where, owner) for where, owner in classes):
        return True
    bases = {base.partition(".")[0] for where, owner in classes for base in resolver.base_names(where, owner)}
    if bases & (others | {"torch"}):
        return "torch" not in bases
    return not module.packages.isdisjoint(others) and not _is_of_torch(project, module, model)


def _sets_mode_alone(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    """Return whether a class is derived from nothing, and its ``eval`` sets no model to evaluation."""
    resolver = project.fact(Resolver)
    method = resolver.method(module, owner, "eval")
    return (
        not resolver.base_names(module, owner)
        and method is not None
        and not any(
            isinstance(part, ast.Call) and last_name(part.func) in ("eval", "train") for part in walk(method.node)
        )
    )


def _is_of_torch(project: Project, module: ModuleIndex, model: ast.expr) -> bool:
    """Return whether a call of PyTorch makes the model (``torch.nn.Sequential(...)``, ``torch.load(path)``)."""
    resolver = project.fact(Resolver)
    return any(
        name.startswith(("torch.", "torchvision.", "timm."))
        for made in resolver.points_to(module, model)
        if isinstance(made.node, ast.Call)
        for name in resolver.call_names(made.module, made.node)
    )
