"""Evaluation loops that put all views of a sample (crops, frames) into the batch, which is then many times as large."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, last_name
from gpulint.workspace.word_index import word_of

_VIEWS = frozenset({"view", "reshape"})
_MOVES = frozenset({"to", "cuda", "float", "half", "contiguous", "type", "squeeze", "requires_grad_"})
"""Methods whose result has as many samples."""
_REARRANGED = regex.compile(r"\s*\w+\s+\w+\s+\S[^>]*->\s*\(\s*\w+\s+\w+\s*\)\s*\S")
"""``b n c h w -> (b n) c h w``"""


def flattened_elsewhere(project: Project, module: ModuleIndex, loader: ast.AST) -> str:
    """Return the same of the functions that get a loader by the name that it is kept under."""
    kept = module.syntax.parents.get(loader)
    target = kept.targets[0] if isinstance(kept, ast.Assign) else None
    if not isinstance(target, ast.Name):
        return ""
    for use in module.named.get(target.id, ()):
        call = module.syntax.parents.get(use)
        if module.function(use) is not module.function(loader) or not isinstance(call, ast.Call):
            continue
        for function in _called(project, module, call):
            for part in walk(function) if isinstance(function, FUNCTIONS) else ():
                if not isinstance(part, ast.For | ast.AsyncFor) or not isinstance(function, FUNCTIONS):
                    continue
                if _draws(function, call, use, part) and (made := flattened(part)):
                    return made
    return ""


def _called(project: Project, module: ModuleIndex, call: ast.Call) -> list[ast.AST]:
    """The functions that a call may mean; where nothing tells, all with its name in the tree."""
    known = [callee.node for callee in project.fact(Resolver).callees(module, call)]
    if known or not isinstance(call.func, ast.Name) or module.scope(call).lookup(call.func.id):
        return known
    name, paths = call.func.id, project.word_index.mentioning(word_of(call.func.id))
    modules = [one for path in paths if (one := project.module_at(path)) is not None]
    return [one for found in modules for one in found.functions if getattr(one, "name", "") == name]


def _draws(function: FunctionNode, call: ast.Call, loader: ast.AST, loop: ast.For | ast.AsyncFor) -> bool:
    """Return whether a loop of a function goes over the parameter that gets a loader."""
    named = {part.id for part in walk(loop.iter) if isinstance(part, ast.Name)} & parameters(function)
    return any(argument_of(function, call, name) is loader for name in sorted(named))


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
