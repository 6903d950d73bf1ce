"""Expressions that tell by their form what they are: numbers, weights, elements of what is written out."""

from __future__ import annotations

import ast

from gpulint.workspace.module_index import BindingKind, ModuleIndex, last_name

_FLOATS = frozenset({"float", "int", "Optional[float]", "float | None", "Optional[int]", "int | None"})


def is_float(parameter: ast.AST) -> bool:
    """``loss: float``, ``loss: Optional[float]``: a number by its annotation."""
    note = parameter.annotation if isinstance(parameter, ast.arg) else None
    return note is not None and ast.unparse(note).removeprefix("typing.") in _FLOATS


def is_weight(module: ModuleIndex, node: ast.expr) -> bool:
    """``p`` of ``for p in model.parameters()``."""
    bindings = module.scope(node).lookup(node.id) if isinstance(node, ast.Name) else ()
    return bool(bindings) and all(
        binding.kind is BindingKind.LOOP
        and binding.value is not None
        and last_name(binding.value) in ("parameters", "named_parameters")
        for binding in bindings
    )


def is_number(node: ast.expr) -> bool:
    """Return whether it is a number that was just read: ``loss.item()``, ``float(loss)``, ``len(batch)``."""
    if not isinstance(node, ast.Call):
        return False
    return last_name(node.func) == "item" or (
        isinstance(node.func, ast.Name) and node.func.id in ("float", "int", "len")
    )


def is_text(node: ast.expr) -> bool:
    """Return whether an expression is a text by its form: ``"loss {}".format(loss)``, ``f"{loss}" + more``."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, str)
        case ast.JoinedStr() | ast.Call(func=ast.Attribute(attr="format", value=ast.Constant())):
            return True
        case ast.Call(func=ast.Name(id="str" | "repr")):
            return True
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return is_text(left) or is_text(right)
        case ast.BinOp(left=left, op=ast.Mod()):
            return is_text(left)
    return False


def element(value: ast.expr, path: tuple[int, ...]) -> tuple[ast.expr, tuple[int, ...]]:
    """Return what ``a, b = x, y`` gives a name, as far as the value is written out, and the rest of the path."""
    while path and isinstance(value, ast.Tuple | ast.List) and 0 <= path[0] < len(value.elts):
        value, path = value.elts[path[0]], path[1:]
    return value, path


def looped_over(source: ast.expr, path: tuple[int, ...]) -> ast.expr | None:
    """Return what a loop goes through for one of its variables (``labels`` of ``for i, (p, y) in enumerate(zip(preds,
    labels))``); None if that is unknown."""
    while isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.args:
        name = source.func.id
        if name == "enumerate" and path[:1] == (1,):
            source, path = source.args[0], path[1:]
        elif name == "zip" and path and 0 <= path[0] < len(source.args):
            source, path = source.args[path[0]], path[1:]
        elif "tqdm" in name:
            source = source.args[0]
        else:
            return None
    return source if not path else None


def asks_for_scale(module: ModuleIndex, call: ast.Call) -> bool:
    """``scaler.state_dict()["scale"]``, for which the scaler reads it from the GPU."""
    match module.syntax.parents.get(call):
        case ast.Subscript(slice=ast.Constant(value="scale")):
            return last_name(call.func) == "state_dict"
    return False


def joined_parts(node: ast.expr) -> list[ast.expr]:
    """Return what an argument is made of, if it is a list that is written out or made of one expression, as of
    ``torch.stack([model(x) for x in images])``; else the argument itself."""
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return parts
        case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part):
            return [part]
    return [node]
