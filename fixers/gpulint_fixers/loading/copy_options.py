"""Calls that copy a batch as an option of the program or a caller says."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.python import walk
from gpulint.placement.device_transfers import DeviceTransfers, Transfer
from gpulint.project import Project
from gpulint.semantic.argument_binding import parameters
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, dotted
from gpulint.workspace.word_index import word_of


def passes_options_on(call: ast.Call) -> bool:
    return any(keyword.arg is None for keyword in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args)


def forwards_choice(transfer: Transfer) -> bool:
    """``value.to(device, non_blocking=non_blocking)`` with a parameter of the function, which a constant in its place
    would leave without effect."""
    call = transfer.node
    function = transfer.call.module.function(call)
    given = [*call.args[1:], *(keyword.value for keyword in call.keywords if keyword.arg == "non_blocking")]
    named = {value.id for value in given if isinstance(value, ast.Name)}
    return function is not None and bool(named & parameters(function))


def chosen(transfer: Transfer) -> str:
    """``args.pinned`` of ``x.to(device, non_blocking=args.pinned)``"""
    given = [keyword.value for keyword in transfer.node.keywords if keyword.arg == "non_blocking"]
    return next((ast.unparse(value) for value in given if not isinstance(value, ast.Constant)), "")


def setting_beside(project: Project, transfer: Transfer) -> ast.expr | None:
    """Return what the copies beside one pass as ``non_blocking`` in the same function, if that is a setting of the
    program (``config.non_blocking``): another part of the same batch goes by it as well."""
    module = transfer.call.module
    return next(_settings(project, module, module.function(transfer.node), transfer), None)


def setting_of_caller(project: Project, transfer: Transfer) -> ast.expr | None:
    """Return such a setting of copies beside the call of a helper (``targets = send(targets, device)``) that has none
    of its own."""
    module, read = transfer.call.module, transfer.batch_read
    if read is None or read.where.module.function(read.where.node) is module.function(transfer.node):
        return None
    where = read.where
    return next(_settings(project, where.module, where.module.function(where.node), transfer), None)


def is_switched_off(project: Project, module: ModuleIndex, setting: ast.expr) -> bool:
    """Return whether a setting is off wherever it is known to be set: a copy that goes by it waits as before."""
    values = project.fact(Constants).of(module, setting).constants or [*_defaults(project, setting)]
    return bool(values) and not any(values)


def _defaults(project: Project, setting: ast.expr) -> Iterator[object]:
    """The constants that a module of settings stores under the same keys: ``config.train.non_blocking = False``."""
    keys = dotted(setting).split(".")[1:]
    for path in project.word_index.mentioning(word_of(keys[-1])) if len(keys) > 1 else ():
        other = project.module_at(path)
        for target, value, _ in other.stores.get(keys[-2], []) if other is not None else ():
            if isinstance(value, ast.Constant) and dotted(target).split(".")[1:] == keys:
                yield value.value


def is_known_at(module: ModuleIndex, setting: ast.expr, transfer: Transfer) -> bool:
    """Return whether the names of a setting are set above a copy, so that it can pass the setting as well."""
    names = [part for part in walk(setting) if isinstance(part, ast.Name)]
    if any(isinstance(part, ast.Call | ast.Subscript) for part in walk(setting)):
        return False
    function = module.function(transfer.node)
    taken = parameters(function) if function is not None else set[str]()
    own, bound = module.scope(transfer.node), ((name, module.scope(name).lookup(name.id)) for name in names)
    return all(
        name.id in taken
        or (bindings is own.lookup(name.id) and all(_line(one.node) < transfer.node.lineno for one in bindings))
        for name, bindings in bound
    )


def _settings(
    project: Project, module: ModuleIndex, function: ast.AST | None, transfer: Transfer
) -> Iterator[ast.expr]:
    for other in project.fact(DeviceTransfers).transfers(module):
        if other.node is transfer.node or module.function(other.node) is not function:
            continue
        for keyword in other.node.keywords:
            if keyword.arg == "non_blocking" and isinstance(keyword.value, ast.Name | ast.Attribute):
                yield keyword.value


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
