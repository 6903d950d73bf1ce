"""Loaders that a program pickles or copies: one with persistent workers holds their processes once it was drawn from,
and cannot be pickled any more."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.libraries.names import matches
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_flow import LoaderFlow
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_COPIES = ("copy.deepcopy", "torch.save", "joblib.dump", "*pickle.dump", "*pickle.dumps", "dill.dump", "dill.dumps")
_NAMED = frozenset({name.rpartition(".")[2] for name in _COPIES})
_SENDS = (
    *("send", "isend", "ssend", "bcast", "scatter", "gather", "allgather", "alltoall", "sendrecv"),
    *("put", "put_nowait", "remote", "submit", "apply_async", "map_async", "starmap"),
    *("broadcast_object_list", "all_gather_object", "gather_object", "scatter_object_list"),
)
"""Methods of MPI communicators, pipes, queues and pools that pickle what they are given."""
_WRAPS = ("send_", "isend_", "broadcast_", "bcast_")
"""How names of functions begin that hand on to those."""
_MOST = 60
"""Most expressions that are looked at in what one call gets."""


def is_pickled(project: Project, loader: Loader) -> bool:
    """Return whether a module that may know a loader, or a helper that it imports, sends it to another process, writes
    it to a file or copies it, as itself or as a part of something."""
    users = map(project.module_at, sorted(project.fact(GpuPrograms).users(loader.module.path)))
    helpers = map(project.module_at, sorted(project.imported(loader.module.path)))
    modules = dict.fromkeys((loader.module, *(one for one in (*users, *helpers) if one is not None)))
    return any(loader.node in _pickled_in(project, module) for module in modules)


@query
def _pickled_in(project: Project, module: ModuleIndex) -> frozenset[ast.Call]:
    """Return the loaders that calls of a module pickle."""
    flow, resolver = project.fact(LoaderFlow), project.fact(Resolver)
    found = set[ast.Call]()
    for call in module.calls_where(lambda name: name in _NAMED or name in _SENDS or name.startswith(_WRAPS)):
        if last_name(call.func) in _NAMED and not matches(_COPIES, resolver.call_names(module, call)):
            continue
        for ref in _within(project, module, call):
            if isinstance(ref.node, ast.expr):
                found |= {loader.node for loader in flow.loaders_of(ref.module, ref.node)}
    return frozenset(found)


def _within(project: Project, module: ModuleIndex, call: ast.Call) -> Iterator[NodeRef]:
    """Yield what a call is given: the values of its arguments, and what these hold."""
    resolver, seen = project.fact(Resolver), set[ast.AST]()
    todo = [NodeRef(module, part) for part in (*call.args, *(keyword.value for keyword in call.keywords))]
    while todo and len(seen) < _MOST:
        at = todo.pop(0)
        if at.node in seen or isinstance(at.node, ast.Constant):
            continue
        seen.add(at.node)
        yield at
        for ref in resolver.points_to(at.module, at.node):
            match ref.node:
                case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
                    todo += [NodeRef(ref.module, part) for part in parts]
        if isinstance(at.node, ast.Name | ast.Attribute):
            todo += _attributes(project, at)


def _attributes(project: Project, at: NodeRef) -> list[NodeRef]:
    """Return the loaders that an object of the tree keeps; none if its class says itself how it is pickled."""
    assert isinstance(at.node, ast.expr)
    resolver = project.fact(Resolver)
    classes = [one for where, owner in resolver.classes_of(at.module, at.node) for one in resolver.mro(where, owner)]
    if any(resolver.method(where, owner, "__getstate__") is not None for where, owner in classes):
        return []
    return [
        NodeRef(where, one.value)
        for where, owner in classes
        for (home, _), stored in where.attributes.items()
        if home is owner
        for one in stored
        if isinstance(one.value, ast.Call) and "oader" in last_name(one.value.func)
    ]
