"""Data sets with a random state of their own, of which each worker gets a copy: all draw the same numbers.

PyTorch seeds only the global random states of a worker.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import loader_argument
from gpulint.workload.dataset_work import sets_of
from gpulint.workload.gpu_samples import kept_attributes, reached

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import ModuleIndex

_OWN_RANDOM = frozenset({"random.Random", "numpy.random.RandomState", "numpy.random.default_rng", "torch.Generator"})
_SEEDS = frozenset({"seed", "manual_seed", "set_state"})


def random_states(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> set[str]:
    """Return the attributes that are made as random states of the object."""
    resolver = project.fact(Resolver)
    return {
        name
        for name, made in kept_attributes(owner)
        if isinstance(made, ast.Call) and resolver.call_names(module, made) & _OWN_RANDOM
    }


def drawn_state(project: Project, loader: Loader) -> str:
    """Return the random state of a data set that its samples draw from and nothing seeds in a worker; empty if there is
    none."""
    if not loader_argument(project, loader, "worker_init_fn").is_absent:
        return ""
    resolver = project.fact(Resolver)
    classes = (
        one
        for source in sets_of(project, loader)
        if isinstance(source.node, ast.expr)
        for one in resolver.classes_of(source.module, source.node)
    )
    return next((name for where, owner in classes if (name := _drawn(project, where, owner))), "")


def _drawn(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> str:
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    states = random_states(project, module, owner)
    if not states or (get := methods.get("__getitem__")) is None:
        return ""
    parts = [part for method in reached(methods, get) for part in walk(method)]
    if any(isinstance(part, ast.Attribute) and part.attr in _SEEDS for part in parts):
        return ""
    for part in parts:
        match part:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()) if name in states:
                return name
    return ""
