"""Evaluation loops that put all views of a sample (crops, frames) into the batch, which is then many times as large."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.workspace.module_index import last_name

_VIEWS = frozenset({"view", "reshape"})
_MOVES = frozenset({"to", "cuda", "float", "half", "contiguous", "type", "squeeze", "requires_grad_"})
"""Methods whose result has as many samples."""
_REARRANGED = regex.compile(r"\s*\w+\s+\w+\s+\S[^>]*->\s*\(\s*\w+\s+\w+\s*\)\s*\S")
"""``b n c h w -> (b n) c h w``"""


def flattened(loop: ast.For | ast.AsyncFor) -> str:
    """Return the expression that makes the second axis of a loop's batches part of the first; empty if none does."""
    batch, shapes = _names_of_batch(loop), _unpacked(loop)
    return next(
        (
            ast.unparse(part)
            for part in walk(loop)
            if isinstance(part, ast.Call) and (_is_view(part, batch, shapes) or _is_rearranged(part, batch))
        ),
        "",
    )


def _names_of_batch(loop: ast.For | ast.AsyncFor) -> set[str]:
    """The names of a batch and of its parts, also moved to a device."""
    names = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
    assigned = [part for part in walk(loop) if isinstance(part, ast.Assign)]
    for statement in sorted(assigned, key=lambda part: part.lineno):
        pairs = [
            pair
            for target in statement.targets
            for pair in (
                zip(target.elts, statement.value.elts, strict=False)
                if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple)
                else [(element, statement.value) for element in getattr(target, "elts", [target])]
            )
        ]
        names |= {target.id for target, value in pairs if isinstance(target, ast.Name) and _root(value) in names}
    return names


def _root(value: ast.expr) -> str:
    """The name from which a part of a batch is taken: ``batch`` of ``batch["image"].to(device)``."""
    while True:
        match value:
            case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _MOVES:
                value = inner
            case ast.Subscript(value=inner):
                value = inner
            case ast.Name(id=name):
                return name
            case _:
                return ""


def _unpacked(loop: ast.For | ast.AsyncFor) -> dict[str, list[str]]:
    """The names of the sizes of what has a name: ``b, n, c, h, w = images.size()``."""
    found = dict[str, list[str]]()
    for part in walk(loop):
        match part:
            case ast.Assign(
                targets=[ast.Tuple(elts=targets)],
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[])
                | ast.Attribute(value=ast.Name(id=name), attr="shape"),
            ):
                found[name] = [last_name(target) for target in targets]
    return found


def _is_view(call: ast.Call, batch: set[str], shapes: dict[str, list[str]]) -> bool:
    """``images.view(b * n, c, h, w)``, ``images.view(-1, c, h, w)`` of five sizes, ``images.flatten(0, 1)``"""
    if not isinstance(call.func, ast.Attribute) or (name := _root(call.func.value)) not in batch:
        return False
    sizes = shapes.get(name, [])
    match call.func.attr, call.args:
        case "flatten", [ast.Constant(value=0), ast.Constant(value=1)]:
            return True
        case "flatten", []:
            return {k.arg: ast.unparse(k.value) for k in call.keywords} in (
                {"end_dim": "1"},
                {"start_dim": "0", "end_dim": "1"},
            )
        case method, [ast.BinOp(op=ast.Mult(), left=left, right=right), _, *_] if method in _VIEWS:
            return [last_name(left), last_name(right)] in (sizes[:2], sizes[1::-1]) or _are_first(left, right)
        case method, [ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)), ast.Starred(value=rest)] if (
            method in _VIEWS
        ):
            return ast.unparse(rest).endswith(("shape[2:]", "size()[2:]"))
        case method, [ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)), _, *_] if method in _VIEWS:
            return len(sizes) > len(call.args) and sizes[2:] == [last_name(one) for one in call.args[1:]]
    return False


def _are_first(left: ast.expr, right: ast.expr) -> bool:
    """``x.shape[0] * x.shape[1]`` and ``x.size(0) * x.size(1)``"""
    texts = sorted((ast.unparse(left), ast.unparse(right)))
    return all(text.endswith(ends) for text, ends in zip(texts, (("[0]", "(0)"), ("[1]", "(1)")), strict=True))


def _is_rearranged(call: ast.Call, batch: set[str]) -> bool:
    """``rearrange(images, "b n c h w -> (b n) c h w")``"""
    match call.args:
        case [value, ast.Constant(value=str(pattern))] if last_name(call.func) == "rearrange":
            return _root(value) in batch and _REARRANGED.match(pattern) is not None
    return False
