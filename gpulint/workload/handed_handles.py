"""Data sets whose samples hold what is still in an open file: a worker cannot send that to the training process."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.libraries.names import matches
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workload.dataset_work import sets_of
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_FILES = ("h5py.File", "netCDF4.Dataset")
"""Calls that open files of which an entry stays in the file until it is read (``entry[:]``), and cannot be pickled."""
_GETTERS = ("__getitem__", "__getitems__", "__iter__")
_STEPS = 6
"""How many variables and entries lead from a sample to the file."""


def handed_handle(project: Project, loader: Loader) -> str:
    """Return what a data set of a loader hands out without reading it from its file; empty if nothing is seen."""
    resolver = project.fact(Resolver)
    for part in sets_of(project, loader):
        if not isinstance(part.node, ast.expr):
            continue
        for where, owner in resolver.classes_of(part.module, part.node):
            getters = (resolver.method(where, owner, name) for name in _GETTERS)
            for getter in getters:
                if getter is not None and (text := _handed_by(project, getter)):
                    return text
    return ""


@query
def _handed_by(project: Project, getter: NodeRef) -> str:
    """Return the entry of an open file that a method gives out as a part of its result; empty if there is none."""
    if not isinstance(getter.node, FUNCTIONS):
        return ""
    for value in project.fact(Resolver).returns(getter.node):
        for part in _parts(value):
            if text := entry_of_file(project, NodeRef(getter.module, part)):
                return text
    return ""


def _parts(value: ast.expr) -> Iterator[ast.expr]:
    """Yield what a sample is made of, as far as it is handed out as it is."""
    match value:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            for part in parts:
                yield from _parts(part)
        case _:
            yield value


def entry_of_file(project: Project, at: NodeRef, steps: int = _STEPS) -> str:
    """Return the text of an expression that is an entry of an open file, or a variable that holds one."""
    match at.node:
        case ast.Name() if steps > 0:
            bound = reaching(at.module, at.module.scope(at.node).lookup(at.node.id), at.node)
            values = [one.value for one in bound if one.kind is BindingKind.ASSIGN and not one.path]
            found = (entry_of_file(project, NodeRef(at.module, one), steps - 1) for one in values if one is not None)
            return next((text for text in found if text), "")
        case ast.Subscript(value=base, slice=key) if _is_file(project, at.module, base) or (
            _is_key(key) and entry_of_file(project, NodeRef(at.module, base), steps - 1)
        ):
            return ast.unparse(at.node)
    return ""


def _is_key(key: ast.expr) -> bool:
    """Return whether an index is the name of an entry, and reads nothing."""
    match key:
        case ast.Constant(value=str()) | ast.JoinedStr() | ast.Call(func=ast.Name(id="str")):
            return True
    return False


def _is_file(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether an expression is an open file."""
    if isinstance(node, ast.Attribute) and node.attr == "variables":
        node = node.value
    resolver = project.fact(Resolver)
    return any(
        isinstance(ref.node, ast.Call) and matches(_FILES, resolver.call_names(ref.module, ref.node))
        for ref in resolver.points_to(module, node)
    )
