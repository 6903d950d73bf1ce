"""What else than the default of an option decides on which device a program computes."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.programs.multi_gpu_use import Program
from gpulint.semantic.path_conditions import conditions
from gpulint.workspace.module_index import ModuleIndex, last_name

_CUDA = regex.compile(r"cuda(:\d+)?")
_PLACES = frozenset({"to", "device", "to_device", "set_device", "set_default_device"})
_SAME = frozenset({"device", "str", "lower", "strip"})
"""Calls that leave the choice as it is: ``torch.device(args.device)``."""


def is_set_again(module: ModuleIndex, option: str) -> bool:
    """Return whether a program gives an option another value than its parser: it assigns to it, or puts what it has
    read into all options (``setattr(args, key, value)``, ``args = merged(args, config)``)."""
    if any(call.args and last_name(call.args[0]) != "self" for call in module.calls_by_name.get("setattr", ())):
        return True
    if "set_defaults" in module.calls_by_name or any(map(_fills_all, module.calls_by_name.get("update", ()))):
        return True
    parsed = {
        target.id
        for statement in module.syntax.of(ast.Assign)
        if isinstance(statement.value, ast.Call) and last_name(statement.value.func).startswith("parse_")
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    return any(
        _replaces(target, statement.value, parsed) or _sets(target, statement.value, option)
        for statement in module.syntax.of(ast.Assign)
        for target in statement.targets
    )


def _fills_all(call: ast.Call) -> bool:
    """``vars(args).update(config)``, ``args.__dict__.update(config)``"""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return (isinstance(owner, ast.Call) and last_name(owner.func) == "vars") or (
        isinstance(owner, ast.Attribute) and owner.attr == "__dict__"
    )


def _replaces(target: ast.expr, value: ast.expr, parsed: set[str]) -> bool:
    return (
        isinstance(target, ast.Name)
        and target.id in parsed
        and any(isinstance(part, ast.Name) and part.id == target.id for part in walk(value))
    )


def _sets(target: ast.expr, value: ast.expr, option: str) -> bool:
    """``args.device = picked(args.device)``"""
    if not isinstance(target, ast.Attribute) or target.attr != option or last_name(target.value) == "self":
        return False
    text = ast.unparse(target)
    while isinstance(value, ast.Call) and last_name(value.func) in _SAME:
        value = value.args[0] if value.args else getattr(value.func, "value", value.func)
    return ast.unparse(value) != text


def names_gpu(program: Program) -> bool:
    """Return whether a program takes a GPU by its name, whatever its options are (``device = "cuda:0"``,
    ``model.cuda()``)."""
    modules = program.modules_where(lambda project, path: project.word_index.holds(path, b"cuda"))
    return any(_names_gpu_itself(module) for module in modules)


def _names_gpu_itself(module: ModuleIndex) -> bool:
    return any(
        isinstance(text.value, str) and _CUDA.fullmatch(text.value) and _is_place(module, text)
        for text in module.syntax.of(ast.Constant)
    ) or any(
        module.function(call) is None and not any(conditions(module, call))
        for call in module.calls_by_name.get("cuda", ())
    )


def _is_place(module: ModuleIndex, text: ast.Constant) -> bool:
    up = module.syntax.parents.get(text)
    match up:
        case ast.Assign(targets=[ast.Name(id=name)]):
            placed = "device" in name.lower() or name.lower() == "dev"
        case ast.keyword(arg="device"):
            placed = True
        case ast.Call(args=[given, *_], func=func):
            placed = given is text and last_name(func) in _PLACES
        case _:
            placed = False
    return placed and not any(conditions(module, text))
