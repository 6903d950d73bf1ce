"""Loaders of other frameworks than PyTorch that a setting of the number of workers reaches, whose samples are made as
tensors on the GPU: ``paddle.to_tensor`` makes them there by default, and worker processes cannot."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from gpulint.documents.python import walk
from gpulint.libraries.names import matches
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workload.library_handles import handles
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex
from gpulint.workspace.word_index import word_of

_LOADERS = ("paddle.*DataLoader",)
_TRANSFORMS = ("*.transforms.*",)
_MAKES_SAMPLES = frozenset({"__getitem__", "__call__", "collate_fn", "_apply_image"})
"""Functions that workers run for each sample or batch."""


@query
def foreign_gpu_samples(project: Project, key: str, path: Path) -> str:
    """Return what makes samples on the GPU for a loader of another framework that reads a setting of a file; empty if
    nothing does. Of several programs those in the nearest folder above the file count."""
    reached = _loaders(project, key)
    for folder in path.parents:
        near = [module for module in reached if module.path.is_relative_to(folder)]
        if near or folder == project.root:
            foreign = (module for module in near if _is_foreign(project, module, key))
            return next((name for module in foreign for name in _gpu_makers(project, module)), "")
    return ""


@query
def _loaders(project: Project, key: str) -> list[ModuleIndex]:
    """Return the modules that make a loader, of whatever framework, with a setting."""
    found = (project.module_at(path) for path in sorted(project.word_index.mentioning(word_of(key))))
    return [module for module in found if module is not None and any(_reading(module, key))]


def _is_foreign(project: Project, module: ModuleIndex, key: str) -> bool:
    names = project.fact(Resolver).call_names
    return any(matches(_LOADERS, names(module, call)) for call in _reading(module, key))


def _reading(module: ModuleIndex, key: str) -> Iterator[ast.Call]:
    """Yield the calls of loaders that read a setting."""
    return (call for call in module.calls_where(lambda name: name.endswith("DataLoader")) if _reads(call, key))


def _reads(call: ast.Call, key: str) -> bool:
    return any(
        (isinstance(part, ast.Attribute) and part.attr == key)
        or (isinstance(part, ast.Name) and part.id == key)
        or (isinstance(part, ast.Constant) and part.value == key)
        for keyword in call.keywords
        if keyword.arg == "num_workers"
        for part in walk(keyword.value)
    )


def _gpu_makers(project: Project, module: ModuleIndex) -> Iterator[str]:
    """Yield the calls that make tensors on the GPU for samples, in a module and those that it imports."""
    resolver, patterns = project.fact(Resolver), handles(project, "gpu-tensor")
    for path in (module.path, *sorted(project.imported(module.path))):
        other = project.module_at(path)
        calls = other.calls_where(lambda name: name in _last_names(patterns)) if other is not None else ()
        for call in calls:
            assert other is not None
            if any(keyword.arg == "place" for keyword in call.keywords):
                continue
            if matches(patterns, resolver.call_names(other, call)) and _is_for_samples(project, other, call):
                yield ast.unparse(call.func)


def _last_names(patterns: tuple[str, ...]) -> frozenset[str]:
    return frozenset(pattern.rpartition(".")[2] for pattern in patterns)


def _is_for_samples(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call is passed to a transform, or made for each sample."""
    resolver = project.fact(Resolver)
    for up in module.syntax.ancestors(call):
        if isinstance(up, FUNCTIONS):
            return up.name in _MAKES_SAMPLES
        if isinstance(up, ast.Call) and matches(_TRANSFORMS, resolver.call_names(module, up)):
            return True
    return False
