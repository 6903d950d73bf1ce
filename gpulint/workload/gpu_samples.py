"""Data sets that compute their samples with an object which may be on the GPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader
from gpulint.workload.dataset_work import parts_of
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, last_name

_DEVICE = regex.compile(r"(^|_)(device|dev|cuda|gpu)s?(_id)?$|^cuda(:\d+)?$", re.IGNORECASE)

_MODEL = regex.compile(r"(^|_)(model|net|network|encoder|extractor|backbone)$", re.IGNORECASE)


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


def reached(methods: dict[str, ast.FunctionDef], first: ast.FunctionDef) -> list[ast.FunctionDef]:
    """A method, and those of the class that it calls on ``self``."""
    found = [first]
    for method in found:
        for part in walk(method):
            match part:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if (
                    called := methods.get(name)
                ) is not None and called not in found:
                    found.append(called)
    return found


def kept_attributes(owner: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """The attributes that a constructor sets, and what it sets them to."""
    init = next((part for part in owner.body if getattr(part, "name", "") == "__init__"), None)
    for part in walk(init) if init is not None else ():
        match part:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = list(zip(targets, values, strict=False))
            case ast.Assign(targets=[target], value=value):
                pairs = [(target, value)]
            case _:
                continue
        for target, value in pairs:
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                yield target.attr, value


def gets_device(call: ast.Call) -> bool:
    """``get_dataset(cfg, device)``"""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(
        _DEVICE.search(str(value.value) if isinstance(value, ast.Constant) else last_name(value)) is not None
        for value in given
        if isinstance(value, ast.Name | ast.Attribute | ast.Constant)
        or (isinstance(value, ast.Call) and last_name(value.func) == "device")
    )


def gets_model(call: ast.Call) -> bool:
    """``Words(root, encoder=encoder)``"""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(
        _MODEL.search(last_name(value)) is not None for value in given if isinstance(value, ast.Name | ast.Attribute)
    )


def uses_device(module: ModuleIndex, owner: ast.ClassDef) -> bool:
    """Return whether a class moves anything to a device, or makes tensors on one."""
    return any(
        (isinstance(part, ast.Call) and last_name(part.func) in ("cuda", "to_device"))
        or (isinstance(part, ast.Call) and last_name(part.func) == "to" and gets_device(part))
        or (isinstance(part, ast.keyword) and part.arg == "device" and not repeats_device(method, part.value))
        for method in owner.body
        if isinstance(method, FUNCTIONS)
        for part in walk(method)
    )


def repeats_device(function: FunctionNode, value: ast.expr) -> bool:
    """Return whether a device is that of a tensor which the function itself has: ``zeros(3, device=sample.device)``."""
    match value:
        case ast.Attribute(value=ast.Name(id=name), attr="device"):
            stored = (part for part in walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
            return any(part.id == name for part in stored)
    return False
