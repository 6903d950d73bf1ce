"""Streams of samples (``IterableDataset``): which of them workers can divide among each other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.libraries.frameworks import Stream
from gpulint.libraries.names import matches
from gpulint.placement.host_to_device import HostToDevice
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader
from gpulint.workload.dataset_work import divides_stream
from gpulint.workspace.module_index import Binding, BindingKind, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_STREAM = regex.compile("iterable|streaming", re.IGNORECASE)
"""Names of functions that make streams, or loaders of them."""
MAX_NAMES = 40
"""Most names of a package that a data set chosen at run time is looked for among."""


def divides_its_stream(project: Project, loader: Loader) -> bool | None:
    """Return whether workers would divide what a loader reads, if it is a stream or may be one; None for other data
    sets."""
    resolver = project.fact(Resolver)
    for source in project.fact(HostToDevice).sources(loader):
        assert isinstance(source.node, ast.expr)
        made = resolver.points_to(source.module, source.node)
        classes = [NodeRef(*found) for found in resolver.classes_of(source.module, source.node)]
        chosen = [found for ref in made for found in _chosen_at_run_time(project, ref)]
        streams = [one for one in (*classes, *chosen) if _is_stream(project, one)]
        if streams:
            return all(divides_stream(project, one) for one in streams)
        if any(isinstance(ref.node, ast.Call) and _STREAM.search(last_name(ref.node.func)) for ref in made):
            return False
        if any(isinstance(ref.node, ast.Call) and _is_known(project, ref.module, ref.node) for ref in made):
            return False
        if not classes and _is_made_for_streams(loader):
            return False
    return None


def _is_stream(project: Project, owner: NodeRef) -> bool:
    assert isinstance(owner.node, ast.ClassDef)
    bases = project.fact(Resolver).base_names(owner.module, owner.node)
    return any(base.endswith("IterableDataset") for base in bases) or any(
        matches(row.calls, bases) for row in _rows(project) if not row.unless
    )


def _is_known(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call makes a stream of a library that nothing divides."""
    names = project.fact(Resolver).call_names(module, call)
    return any(
        matches(row.calls, names)
        and not (row.unless and any(last_name(part) == row.unless for part in walk(call) if isinstance(part, ast.expr)))
        for row in _rows(project)
    )


def _rows(project: Project) -> tuple[Stream, ...]:
    rows: tuple[Stream, ...] = project.models.rows("stream")
    return rows


def _is_made_for_streams(loader: Loader) -> bool:
    """Return whether the function around a loader says that it makes those of streams."""
    function = loader.module.function(loader.node)
    return function is not None and not isinstance(function, ast.Lambda) and bool(_STREAM.search(function.name))


def _chosen_at_run_time(project: Project, ref: NodeRef) -> Iterator[NodeRef]:
    """The classes of a package of the tree of which ``getattr(package, name)(...)`` makes one."""
    match ref.node:
        case ast.Call(func=ast.Call(func=ast.Name(id="getattr"), args=[package, name, *_])):
            if isinstance(name, ast.Constant):
                return
        case _:
            return
    for qualified in project.fact(Resolver).names(ref.module, package):
        path = project.module_path(qualified, ref.module.path)
        home = project.module_at(path) if path is not None else None
        if home is None:
            continue
        for bound in list(home.top.bindings.values())[:MAX_NAMES]:
            yield from (found for binding in bound for found in _defined(project, home, binding))


def _defined(project: Project, home: ModuleIndex, binding: Binding) -> Iterator[NodeRef]:
    """The class that a module binds to a name, its own or one that it imports."""
    found = [(home, binding)]
    if binding.kind is BindingKind.IMPORT:
        found = project.find(project.absolute(binding.target, home.path), home)
    yield from (NodeRef(where, there.node) for where, there in found if isinstance(there.node, ast.ClassDef))
