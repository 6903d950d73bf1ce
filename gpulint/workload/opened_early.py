"""Data sets that open a file at its first read, which the program does before workers start: they would share it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.libraries.names import matches
from gpulint.placement.host_to_device import HostToDevice
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workload.dataset_work import sets_of
from gpulint.workload.library_handles import handles
from gpulint.workspace.module_index import FUNCTIONS, NodeRef

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_IN_PARENT = ("__init__", "__len__")
"""Methods that run in the training process, whatever loads the samples."""


def opened_early(project: Project, loader: Loader) -> str:
    """Return the attribute of a data set that holds a file which the training process has opened when the workers
    start; empty if there is none."""
    resolver = project.fact(Resolver)
    sources = dict.fromkeys((*project.fact(HostToDevice).sources(loader), *sets_of(project, loader)))
    looked_at = _looked_at(project, loader.module.path)
    for source in sources:
        assert isinstance(source.node, ast.expr)
        made = frozenset(ref.node for ref in resolver.points_to(source.module, source.node))
        for where, owner in resolver.classes_of(source.module, source.node):
            data_set = NodeRef(where, owner)
            first = [*_IN_PARENT, *([] if made.isdisjoint(looked_at) else ["__getitem__"])]
            for name, openers in _opened_by(project, data_set).items():
                if any(openers & _reached(owner, method) for method in first) and not _is_let_go(owner, name):
                    return name
    return ""


@query
def _opened_by(project: Project, data_set: NodeRef) -> dict[str, frozenset[str]]:
    """The attributes that methods other than the constructor set to open files, and these methods."""
    module, owner = data_set.module, data_set.node
    assert isinstance(owner, ast.ClassDef)
    found: dict[str, frozenset[str]] = {}
    for method in (part for part in owner.body if isinstance(part, FUNCTIONS) and part.name != "__init__"):
        for part in walk(method):
            match part:
                case ast.Assign(
                    targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Call() as made
                ):
                    if matches(handles(project, "file"), project.fact(Resolver).call_names(module, made)):
                        found[name] = found.get(name, frozenset()) | {method.name}
    return found


def _reached(owner: ast.ClassDef, first: str) -> set[str]:
    """The names of a method and of those that it calls on its object, with the properties that it reads."""
    methods = {part.name: part for part in owner.body if isinstance(part, FUNCTIONS)}
    found = [first] if first in methods else []
    for name in found:
        found += [other for other in _own(methods[name]) if other in methods and other not in found]
    return {*found}


def _own(method: ast.AST) -> Iterator[str]:
    for part in walk(method):
        match part:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()):
                yield name


def _is_let_go(owner: ast.ClassDef, name: str) -> bool:
    """Return whether the constructor, having opened a file, sets its attribute back: ``self.file = None`` last."""
    init = next((part for part in owner.body if getattr(part, "name", "") == "__init__"), None)
    last = init.body[-1] if isinstance(init, ast.FunctionDef) else None
    match last:
        case ast.Assign(targets=[ast.Attribute(attr=attr)], value=ast.Constant(value=None)):
            return attr == name
    return False


@query
def _looked_at(project: Project, path: Path) -> frozenset[ast.AST]:
    """Return what makes the objects that a module takes elements out of: ``print(data[0].shape)``."""
    module, points_to = project.module_at(path), project.fact(Resolver).points_to
    if module is None:
        return frozenset()
    return frozenset(
        ref.node
        for part in module.syntax.of(ast.Subscript)
        if isinstance(part.ctx, ast.Load) and isinstance(part.value, ast.Name)
        for ref in points_to(module, part.value)
    )
