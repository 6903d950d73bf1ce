"""Tests that the defaults of a program decide, and loops that have no round by default."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, dotted

if TYPE_CHECKING:
    from gpulint.project import Project

_OF_JOBS = regex.compile(r"RANK|WORLD|SLURM|PBS|SGE|LSB|CUDA|GPU|MASTER|NODE|TPU|WANDB|^(SM|AML|KUBERNETES|RAY)_")
"""Variables that a launcher, a scheduler or a platform sets."""
_OF_SEVERAL = regex.compile(r"rank|world|gpu|node|proc|distributed|device|dp_|ddp|parallel", re.IGNORECASE)
"""Settings that whoever has several GPUs changes."""
_ORDERS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le
}  # fmt: skip
_FILLS = ("append", "extend", "add", "update", "insert")


def fails_by_default(project: Project, module: ModuleIndex, test: ast.expr, wanted: bool) -> bool:
    """Return whether all known values decide a comparison otherwise than ``wanted``: ``args.weight > 0`` with the
    default 0, ``monitoring > 1`` with the default 1, ``"xl" in args.model``, ``name.startswith("gpt")``, ``logger is
    not None``; or a variable of the environment that is seldom set decides it: ``os.environ.get("PROFILE")``."""
    constants = project.fact(Constants)
    match test:
        case ast.Call(args=[ast.Constant(value=str(name)), *default]):
            if not _reads_environment(test) or _OF_JOBS.search(name):
                return _fails_for_text(constants, module, test, wanted)
            return wanted and all(isinstance(one, ast.Constant) and not one.value for one in default)
        case ast.Compare(left=ast.Name() as left, ops=[ast.Is() | ast.IsNot() as identity], comparators=[right]):
            return (
                isinstance(right, ast.Constant)
                and right.value is None
                and wanted is isinstance(identity, ast.IsNot)
                and constants.of(module, left).every(lambda value: value is None)
            )
        case ast.Compare(left=left, ops=[ordering], comparators=[ast.Constant(value=int() | float() as limit)]) if (
            order := _ORDERS.get(type(ordering))
        ):
            if limit and (_OF_SEVERAL.search(ast.unparse(left)) or _is_handed_on(module, left)):
                return False
            return constants.of(module, left).every(
                lambda value: isinstance(value, int | float) and order(value, limit) is not wanted
            )
        case ast.Compare(
            left=ast.Constant(value=str(part)), ops=[ast.In() | ast.NotIn() as membership], comparators=[text]
        ):
            inside = wanted is isinstance(membership, ast.In)
            known = constants.of(module, text)
            return known.every(lambda value: isinstance(value, str) and (part in value) is not inside)
    return False


def _is_handed_on(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a value is a parameter of a function that others call: ``mp.spawn(run, args=(count,))``."""
    function = module.function(node)
    if not isinstance(node, ast.Name) or not isinstance(function, ast.FunctionDef):
        return False
    parameters = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return any(one.arg == node.id for one in parameters) and any(
        getattr(module.syntax.parents.get(use), "func", None) is not use for use in module.uses.get(function.name, ())
    )


def _reads_environment(call: ast.Call) -> bool:
    """``os.environ.get("PROFILE")``, ``os.getenv("PROFILE", "")``"""
    return dotted(call.func).removeprefix("os.") in ("environ.get", "getenv")


def _fails_for_text(constants: Constants, module: ModuleIndex, test: ast.Call, wanted: bool) -> bool:
    match test:
        case ast.Call(
            func=ast.Attribute(value=text, attr="startswith" | "endswith" as method),
            args=[ast.Constant(value=str(part))],
        ):
            known = constants.of(module, text)
            return known.every(lambda value: isinstance(value, str) and getattr(value, method)(part) is not wanted)
    return False


def runs_over_nothing(project: Project, module: ModuleIndex, node: ast.AST, until: ast.AST | None = None) -> bool:
    """Return whether a loop between ``node`` and ``until`` goes through a setting that is an empty list
    (``for task in config["tasks"]``)."""
    for up in module.syntax.ancestors(node):
        if up is until or isinstance(up, FUNCTIONS):
            return False
        if isinstance(up, ast.For) and _is_empty_setting(project, module, up.iter):
            return True
    return False


def _is_empty_setting(project: Project, module: ModuleIndex, source: ast.expr) -> bool:
    match source:
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            origins = project.fact(Resolver).points_to(module, source)
        case _:
            return False
    filled = (call.func for name in _FILLS for call in module.calls_by_name.get(name, ()))
    return all(_is_empty(ref.node) for ref in origins) and not any(
        isinstance(func, ast.Attribute) and key in ast.unparse(func.value) for func in filled
    )


def _is_empty(node: ast.AST) -> bool:
    return isinstance(node, ast.List | ast.Tuple) and not node.elts
