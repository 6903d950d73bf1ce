"""Batches of classes of tensors, of which pinning may make plain ones that the program then refuses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.host_to_device import HostToDevice
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.workspace.module_index import FUNCTIONS, NodeRef, last_name

OTHER_CLASS = "the batches may hold tensors of `{}`, whose class pinning may not keep (`__torch_function__`)"
_CHECKED = regex.compile(rb"isinstance\([^\n]{1,200}[A-Za-z0-9_]Tensor\b")
_PLAIN = ("torch.", "numpy.", "tensorflow.", "jax.", "builtins.")
_HOOK = "__torch_function__"


def other_tensors(project: Project, loader: Loader) -> str:
    """Return the class of tensors that a loader's batches may hold and that pinning may turn into plain ones: one of
    the tree with a ``__torch_function__`` that what makes the batches uses, or one of the library which makes both data
    set and batches, if the program checks for it. Empty if there is none."""
    makers = list(_makers(project, loader))
    for name in _own_classes(project):
        parts = (part for made in makers for part in walk(made.node))
        if any(isinstance(part, ast.Name | ast.Attribute) and last_name(part) == name for part in parts):
            return name
    if loader_argument(project, loader, "collate_fn").is_absent or any(_is_collate(made) for made in makers):
        return ""
    libraries = {name.partition(".")[0] for name in _data_sets(project, loader)}
    checked = _checked_classes(project) if libraries else ()
    return next((name.rpartition(".")[2] for name in checked if name.partition(".")[0] in libraries), "")


def _is_collate(made: NodeRef) -> bool:
    return not isinstance(made.node, ast.ClassDef)


def _makers(project: Project, loader: Loader) -> Iterator[NodeRef]:
    """Yield what makes the samples and batches of a loader in the tree: classes of data sets, collate functions."""
    resolver = project.fact(Resolver)
    for source in project.fact(HostToDevice).sources(loader):
        if isinstance(source.node, ast.expr):
            yield from (NodeRef(*owner) for owner in resolver.classes_of(source.module, source.node))
    for ref in loader_argument(project, loader, "collate_fn").refs:
        for made in resolver.points_to(ref.module, ref.node):
            if isinstance(made.node, (*FUNCTIONS, ast.Lambda)):
                yield made


def _data_sets(project: Project, loader: Loader) -> Iterator[str]:
    """Yield the names of the libraries' classes and functions that make the data sets of a loader."""
    resolver = project.fact(Resolver)
    for source in project.fact(HostToDevice).sources(loader):
        for made in resolver.points_to(source.module, source.node) if isinstance(source.node, ast.expr) else ():
            if isinstance(made.node, ast.Call):
                yield from (name for name in resolver.call_names(made.module, made.node) if "." in name)


@query
def _own_classes(project: Project) -> tuple[str, ...]:
    """The classes of the tree that say what becomes of their tensors, other than when they are pinned."""
    found = list[str]()
    for path in sorted(project.python_files_with(_HOOK.encode())):
        module = project.module_at(path)
        for owner in module.classes if module is not None else ():
            hooks = [part for part in owner.body if isinstance(part, FUNCTIONS) and part.name == _HOOK]
            if any("pin_memory" not in ast.unparse(hook) for hook in hooks):
                found.append(owner.name)
    return tuple(found)


@query
def _checked_classes(project: Project) -> tuple[str, ...]:
    """The classes of tensors of other libraries than PyTorch that the program checks for."""
    paths = (path for path in sorted(project.python_files_with(b"isinstance")) if project.finds(path, _CHECKED))
    return tuple(dict.fromkeys(name for path in paths for name in _checked_in(project, path)))


def _checked_in(project: Project, path: Path) -> Iterator[str]:
    module, resolver = project.module_at(path), project.fact(Resolver)
    for call in module.calls_by_name.get("isinstance", ()) if module is not None else ():
        for part in (part for argument in call.args[1:] for part in walk(argument)):
            if isinstance(part, ast.Name | ast.Attribute) and last_name(part).endswith("Tensor"):
                assert module is not None
                names = sorted(resolver.names(module, part))
                yield from (name for name in names if "." in name and not name.startswith(_PLAIN))
