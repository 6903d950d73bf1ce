"""Data sets that compute their samples with an object which may be on the GPU."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader
from gpulint.workload.dataset_work import parts_of
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.host_samples import uses_device
from gpulint_fixers.shared_states import kept_attributes, reached


def gpu_part(project: Project, loader: Loader) -> str:
    """Return the attribute of a data set that its samples are made with, and whose class moves to a device; empty if
    there is none."""
    resolver = project.fact(Resolver)
    for source in parts_of(project, loader):
        assert isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node):
            if name := _part_of(project, where, owner):
                return name
    return ""


def _part_of(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> str:
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    if (get := methods.get("__getitem__")) is None:
        return ""
    made = dict(kept_attributes(owner))
    called = {
        name
        for method in reached(methods, get)
        for part in walk(method)
        if isinstance(part, ast.Call) and (name := _receiver(part)) in made
    }
    resolver = project.fact(Resolver)
    for name in sorted(called):
        classes = resolver.classes_of(module, made[name])
        if classes and all(uses_device(*one) for one in classes):
            return name
    return ""


def _receiver(call: ast.Call) -> str:
    """``generator`` of ``self.generator.embed(text)`` and ``self.generator(text)``."""
    match call.func:
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            return name
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return ""
