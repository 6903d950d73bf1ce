"""Loops over a loader's batches in files that the scan leaves out, such as ``third_party/``: programs run them too."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.host_to_device import HostToDevice
from gpulint.query import query
from gpulint.semantic.argument_binding import positional
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, last_name

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import ModuleIndex

_MOVES = frozenset({"cuda", "to"})


def is_moved(project: Project, loader: Loader) -> bool:
    """Return whether the batches of a loader are seen to move to what may be a GPU, anywhere."""
    if any(True for _ in project.fact(DeviceTransfers).transfers_of(loader)):
        return True
    return project.fact(HostToDevice).mover(loader) is not None or _is_moved_outside(project, loader)


@query
def _is_moved_outside(project: Project, loader: Loader) -> bool:
    """Return whether the function that makes a loader passes it to one of a file that is not scanned, whose loop over
    the parameter moves something to a device."""
    module, home = loader.module, loader.module.function(loader.node)
    for use in module.uses.get(loader.variable, ()):
        call, name = _taker(module, use)
        if call is None or module.function(use) is not home:
            continue
        for taken in project.fact(Resolver).callees(module, call):
            if taken.module.path in _scanned(project) or not isinstance(taken.node, FUNCTIONS):
                continue
            parameter = name or _parameter(taken.node, call, use)
            if parameter and _moves_batches(taken.node, parameter):
                return True
    return False


@query
def _scanned(project: Project) -> frozenset[Path]:
    return frozenset(project.files)


def _taker(module: ModuleIndex, use: ast.AST) -> tuple[ast.Call | None, str]:
    """Return the call that a name is passed to, and the keyword if it is passed by one."""
    up = module.syntax.parents.get(use)
    name = (up.arg or "") if isinstance(up, ast.keyword) else ""
    call = module.syntax.parents.get(up) if isinstance(up, ast.keyword) else up
    return (call, name) if isinstance(call, ast.Call) and call.func is not use else (None, "")


def _parameter(function: FunctionNode, call: ast.Call, use: ast.AST) -> str:
    """Return the parameter of a function that a call passes a positional argument for."""
    pairs = zip(positional(function, call), call.args, strict=False)
    return next((name for name, given in pairs if given is use), "")


def _moves_batches(function: FunctionNode, parameter: str) -> bool:
    return any(
        isinstance(loop, ast.For)
        and any(isinstance(part, ast.Name) and part.id == parameter for part in walk(loop.iter))
        and any(isinstance(part, ast.Call) and last_name(part.func) in _MOVES for part in walk(loop))
        for loop in walk(function)
    )
