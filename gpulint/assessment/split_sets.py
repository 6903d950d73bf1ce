"""Loaders of data sets that another function splits, and then makes loaders of the parts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.placement.host_to_device import HostToDevice
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_flow import LoaderFlow
from gpulint.workspace.module_index import last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import ModuleIndex

_SPLITS = "random_split"


def is_split_again(subject: Subject) -> bool:
    """Return whether another function splits the data set that a loader of a class was made for (``random_split(
    data.train_set, sizes)``) and makes a loader of the parts: batches may come from that one alone."""
    loader = subject.cost.loader if subject.cost is not None else None
    return loader is not None and _is_split_again(subject.project, loader)


@query
def _is_split_again(project: Project, loader: Loader) -> bool:
    kept = [source.node for source in project.fact(HostToDevice).sources(loader)]
    names = {node.attr for node in kept if isinstance(node, ast.Attribute) and last_name(node.value) == "self"}
    owner = loader.module.class_of(loader.node)
    if not names or owner is None or not loader.variable.startswith("self."):
        return False
    return any(
        _may_be(project, where, part.value, owner) and _makes_loader(project, where, call, loader)
        for path in project.word_index.mentioning(word_of(_SPLITS))
        if (where := project.module_at(path)) is not None
        for call in where.calls_by_name.get(_SPLITS, ())
        for part in call.args[:1]
        if isinstance(part, ast.Attribute) and part.attr in names and last_name(part.value) != "self"
    )


def _may_be(project: Project, module: ModuleIndex, node: ast.expr, owner: ast.ClassDef) -> bool:
    found = project.fact(Resolver).classes_of(module, node)
    return not found or any(one is owner for _, one in found)


def _makes_loader(project: Project, module: ModuleIndex, call: ast.Call, loader: Loader) -> bool:
    """Return whether the function around a call makes a loader that it keeps under the same name as another one."""
    name = loader.variable.rpartition(".")[2]
    made = project.fact(LoaderFlow).in_module(module)
    return any(
        module.function(one.node) is module.function(call) and one.variable.rpartition(".")[2] == name for one in made
    )
