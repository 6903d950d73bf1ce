"""Copies to the host that a loss may be computed of (``criterion(out.cpu(), y)``), so that gradients flow through."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.training.differentiation import propagated
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

_CUT = regex.compile(
    r"\bdetach(_)?\(|\.data\b|\barg(max|min|sort)\(|\.(long|int|bool|byte)\(|\.grad\b|\bno_grad\b|[<>]|[=!]=|\.shape\b"
)
"""Text of tensors through which no gradient flows."""
_ARRAYS = frozenset({"numpy", "tolist", "item"})
"""Methods that fail on tensors with gradients, or lose them."""
_COLLECTS = frozenset({"append", "extend", "add", "insert"})
_MAX_NAMES = 8


def may_carry_gradient(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a copy to the host is a part of what its function calls ``backward`` of, or leaves the function,
    so that a caller may."""
    if not isinstance(node, ast.Call) or last_name(node.func) != "cpu" or _CUT.search(module.syntax.text(node)):
        return False
    function = module.function(node)
    trained = propagated(project, module, function)
    names, seen = _kept_by(module, node), set[str]()
    if names is None:
        return True
    while names - seen and len(seen) < _MAX_NAMES:
        if names & trained:
            return True
        new = names - seen
        seen |= names
        for use in (use for name in new for use in module.uses.get(name, ()) if module.function(use) is function):
            found = _kept_by(module, use)
            if found is None:
                return True
            names |= found
    return False


def _kept_by(module: ModuleIndex, node: ast.expr) -> set[str] | None:
    """The names that a value, or what is made of it, is given; nothing where its function returns it."""
    below: ast.AST = node
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Attribute(attr=name) if name in _ARRAYS | {"shape", "dtype", "device", "detach", "data"}:
                return set()
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if (
                method in _COLLECTS and below is not up.func
            ):
                return {name}
            case ast.Call(func=function) if below is not function and last_name(function) in ("print", "float", "int"):
                return set()
            case ast.Return() | ast.Yield():
                return None
            case ast.Assign(targets=targets):
                return {part.id for target in targets for part in walk(target) if isinstance(part, ast.Name)} - {"self"}
            case ast.AugAssign(target=ast.Name(id=name)):
                return {name}
            case ast.For(iter=iterable, target=target) if below is iterable:
                return {part.id for part in walk(target) if isinstance(part, ast.Name)}
            case ast.stmt() | ast.Lambda():
                return set()
            case _ if isinstance(up, FUNCTIONS):
                return set()
        below = up
    return set()
