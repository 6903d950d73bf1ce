"""Paths of files that a program opens, also those that it puts together from its own place (``__file__``)."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.query import cyclic
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex, NodeRef

_SAME = frozenset({"abspath", "realpath", "normpath", "fspath", "str", "Path", "PurePath"})
"""Functions that return the path which they get."""
_ITSELF = frozenset({"resolve", "absolute", "as_posix", "expanduser"})
"""Methods of a path that return it in another form."""
_UNKNOWN: Path | None = None


def file_names(project: Project, ref: NodeRef) -> Iterator[str]:
    """Yield the paths that an expression may be, seen from the folder of its module."""
    for value in project.fact(Constants).of(ref.module, ref.node).values:
        if isinstance(value.value, str) and "{}" not in value.value:
            yield value.value
    if isinstance(ref.node, ast.expr) and (path := _path(project, ref.module, ref.node)) is not None:
        yield Path(os.path.relpath(path, ref.module.path.parent)).as_posix()


@cyclic(_UNKNOWN)
def _path(project: Project, module: ModuleIndex, node: ast.expr) -> Path | None:
    """Return the path that an expression is, if it starts from ``__file__``."""
    match node:
        case ast.Name(id="__file__"):
            return module.path
        case ast.Name():
            found = project.fact(Resolver).points_to(module, node)
            origin = found[0].node if len(found) == 1 and not found[0].path else node
            known = isinstance(origin, ast.expr) and origin is not node
            return _path(project, found[0].module, origin) if known and isinstance(origin, ast.expr) else None
        case ast.Call(func=ast.Attribute(attr=name, value=inner), args=[]) if name in _ITSELF:
            return _path(project, module, inner)
        case ast.Call(func=func, args=[inner]) if last_name(func) in _SAME:
            return _path(project, module, inner)
        case ast.Call(func=func, args=[inner]) if last_name(func) == "dirname":
            return _up(_path(project, module, inner), 0)
        case ast.Attribute(attr="parent", value=inner):
            return _up(_path(project, module, inner), 0)
        case ast.Subscript(value=ast.Attribute(attr="parents", value=inner), slice=ast.Constant(value=int(number))):
            return _up(_path(project, module, inner), number)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _below(project, module, left, [right])
        case ast.Call(func=ast.Attribute(attr="join"), args=[first, *parts]):
            return _below(project, module, first, parts)
        case ast.Call(func=ast.Attribute(attr="joinpath", value=first), args=parts):
            return _below(project, module, first, parts)
    return None


def _up(path: Path | None, number: int) -> Path | None:
    return path.parents[number] if path is not None and 0 <= number < len(path.parents) else None


def _below(project: Project, module: ModuleIndex, first: ast.expr, parts: list[ast.expr]) -> Path | None:
    folder = _path(project, module, first)
    known = [project.fact(Constants).of(module, part).constants for part in parts] if folder is not None else []
    names = [one[0] for one in known if len(one) == 1 and isinstance(one[0], str)]
    if folder is None or len(names) < len(parts):
        return None
    return Path(os.path.normpath(folder.joinpath(*names)))
