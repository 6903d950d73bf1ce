"""Tensors that are changed in place, so that another name for one would show the change."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from gpulint.documents.python import walk
from gpulint.workspace.module_index import ModuleIndex, NodeRef


def is_changed(module: ModuleIndex, tensor: ast.expr, sites: Iterable[NodeRef] = ()) -> bool:
    """Return whether the function around a tensor changes it in place (``loss /= 2``), or one of the calls at ``sites``
    gets it from that function and does so."""
    function = module.function(tensor)
    if not isinstance(tensor, ast.Name | ast.Attribute | ast.Subscript) or function is None:
        return False
    text = ast.unparse(tensor)
    if text in _changed_in(function) or _is_shared(function, text):
        return True
    given = [part.value for part in walk(function) if isinstance(part, ast.Return) and part.value is not None]
    return any(
        name in _changed_in(site.module.function(site.node) or site.module.syntax.tree)
        for value in given
        for site in sites
        for name in _receivers(site, value, text)
    )


def _is_shared(function: ast.AST, text: str) -> bool:
    """Return whether the function puts the tensor itself into a dictionary."""
    return any(
        isinstance(part, ast.Dict) and any(ast.unparse(value) == text for value in part.values)
        for part in walk(function)
    )


def _changed_in(region: ast.AST) -> set[str]:
    found = set[str]()
    for part in walk(region):
        match part:
            case ast.AugAssign(target=target):
                found.add(ast.unparse(target))
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name.endswith("_") and not name.endswith("__"):
                found.add(ast.unparse(value))
    return found


def _receivers(site: NodeRef, returned: ast.expr, text: str) -> Iterator[str]:
    """The variables that get a part of what a function returns."""
    match site.module.syntax.parents.get(site.node), returned:
        case ast.Assign(targets=[ast.Tuple(elts=targets)]), ast.Tuple(elts=values):
            for target, value in zip(targets, values, strict=False):
                if ast.unparse(value) == text:
                    yield ast.unparse(target)
        case ast.Assign(targets=[target]), _ if ast.unparse(returned) == text:
            yield ast.unparse(target)


def stored(loop: ast.AST) -> set[str]:
    """The variables that a loop sets, or into which it writes."""
    found = set[str]()
    for part in walk(loop):
        match part:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                found.add(name)
    return found
