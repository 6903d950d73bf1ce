"""Values for the log of Lightning, which reads tensors when it writes it: ``self.log("loss", loss)``, and what older
versions log of the result of a step (``return {"loss": loss, "log": {"loss": loss}}``)."""

from __future__ import annotations

import ast

from gpulint.documents.call_syntax import keyword_value
from gpulint.project import Project
from gpulint.training.trainer_config import all_log_each_step
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex

_LIGHTNING = frozenset({"pytorch_lightning", "lightning"})
_LOGGED = frozenset({"log", "progress_bar"})
"""Entries of a result that are logged."""


def is_handed_to_lightning(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether the value is for ``self.log`` or ``pl_module.log_dict`` of a Lightning module."""
    return _log_of(module, node) is not None


def is_read_anyway(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether Lightning reads a value that is handed to it in every step: for its progress bar, or for a log
    that is written as often; not where it only keeps the mean of an epoch."""
    log = _log_of(module, node)
    if log is None or _is_set(log, "on_step", False):
        return False
    return _is_set(log, "prog_bar", True) or all_log_each_step(project)


def _is_set(call: ast.Call, name: str, wanted: bool) -> bool:
    given = keyword_value(call, name)
    return isinstance(given, ast.Constant) and given.value is wanted


def _log_of(module: ModuleIndex, node: ast.expr) -> ast.Call | None:
    if module.packages.isdisjoint(_LIGHTNING):
        return None
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "pl_module"), attr="log" | "log_dict")):
                return up
            case ast.stmt():
                return None
    return None


def is_in_result(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a value is in the part of what ``training_step`` returns that Lightning logs."""
    function = module.function(node)
    if (
        module.packages.isdisjoint(_LIGHTNING)
        or not isinstance(function, FUNCTIONS)
        or function.name != "training_step"
    ):
        return False
    inner: ast.AST = node
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Dict() if _is_logged(module, up):
                return True
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as made) if made is inner:
                uses = [use for use in module.uses.get(name, ()) if module.function(use) is function]
                return bool(uses) and all(_is_logged(module, use) for use in uses)
            case ast.stmt() | ast.Lambda():
                return False
        inner = up
    return False


def _is_logged(module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a value is the ``log`` of a dictionary that is returned."""
    whole = module.syntax.parents.get(value)
    return (
        isinstance(whole, ast.Dict)
        and isinstance(module.syntax.parents.get(whole), ast.Return)
        and any(
            one is value and isinstance(key, ast.Constant) and key.value in _LOGGED
            for key, one in zip(whole.keys, whole.values, strict=True)
        )
    )
