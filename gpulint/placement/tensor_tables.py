"""Tables and lists of tensors, by what the same function does with their elements: ``losses["total"].backward()``."""

from __future__ import annotations

import ast

from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import LOOPS, ModuleIndex, last_name

_CHANGES = frozenset({"update", "pop", "clear", "setdefault", "popitem", "append", "extend", "insert"})


def holds_trained(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a variable is a table or list with a tensor that the function trained on before in the same round
    of its loop (``losses["total"].backward()``, ``sum(losses.values()).backward()``), and no element was given another
    value since."""
    if not isinstance(node, ast.Name):
        return False
    earlier = [use for use in module.uses.get(node.id, ()) if _is_before(module, use, node)]
    proofs = [use.lineno for use in earlier if _is_trained(module, use)]
    return bool(proofs) and not any(use.lineno >= max(proofs) and _changes(module, use) for use in earlier)


def _is_before(module: ModuleIndex, use: ast.Name, node: ast.Name) -> bool:
    """Return whether a use comes before ``node`` in the same round, and is of the same values."""
    if use.lineno >= node.lineno or module.function(use) is not module.function(node):
        return False
    loop = next((up for up in module.syntax.ancestors(node) if isinstance(up, LOOPS)), None)
    if loop is not None and loop not in module.syntax.ancestors(use):
        return False
    bindings = module.scope(node).lookup(node.id)
    return [*reaching(module, bindings, use)] == [*reaching(module, bindings, node)]


def _is_trained(module: ModuleIndex, use: ast.Name) -> bool:
    element = _element(module, use)
    return element is not None and _reaches_backward(module, element)


def _element(module: ModuleIndex, use: ast.Name) -> ast.expr | None:
    """``losses["total"]``, ``sum(losses.values())``, ``sum(loss for loss in losses.values())``"""
    match up := module.syntax.parents.get(use):
        case ast.Subscript(ctx=ast.Load()) if up.value is use:
            return up
        case ast.Attribute(attr="values"):
            for outer in module.syntax.ancestors(up):
                if isinstance(outer, ast.Call) and last_name(outer.func) == "sum":
                    return outer
                if isinstance(outer, ast.stmt):
                    break
    return None


def _reaches_backward(module: ModuleIndex, value: ast.expr, names: int = 1) -> bool:
    """Return whether ``backward`` is called of a value, or of a sum that it is a term of."""
    below: ast.AST = value
    for up in module.syntax.ancestors(value):
        match up:
            case ast.Call(func=ast.Attribute(attr="backward")):
                return True
            case ast.Attribute() | ast.BinOp(op=ast.Add() | ast.Sub()):
                pass
            case ast.BinOp(op=ast.Div(), left=left) if left is below:
                pass
            case ast.Call(func=ast.Attribute(attr="scale") as func) if below is not func:
                pass
            case ast.Assign(targets=[ast.Name(id=name)]) if names:
                function = module.function(value)
                return any(
                    use.lineno > up.lineno and module.function(use) is function and _reaches_backward(module, use, 0)
                    for use in module.uses.get(name, ())
                )
            case _:
                return False
        below = up
    return False


def _changes(module: ModuleIndex, use: ast.Name) -> bool:
    match up := module.syntax.parents.get(use):
        case ast.Subscript(value=base):
            return base is use and not isinstance(up.ctx, ast.Load)
        case ast.Attribute(attr=name):
            return name in _CHANGES
    return False
