"""Loops over loaders that only move, reshape and keep the batches: no model runs on them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_MOVES = frozenset(
    """append extend insert items keys values join format split strip copy get
    to cuda cpu numpy detach clone contiguous item tolist squeeze unsqueeze view reshape permute transpose flatten
    expand repeat float double half int long bool byte type size dim numel shape astype requires_grad_ swapaxes moveaxis
    tensor as_tensor from_numpy array asarray zeros ones empty full zeros_like ones_like arange one_hot stack cat concat
    concatenate vstack hstack device is_available no_grad
    sum mean std var min max unique bincount abs sqrt
    len range zip enumerate print list dict tuple set str isinstance getattr hasattr sorted round
    set_postfix set_description write info debug savez save imwrite makedirs exists""".split()
)
"""Names of functions and methods that make no predictions, and take no training steps."""
MAX_CALLS = 3
"""Most functions of the tree that call each other from a loop."""


@query
def only_collects(project: Project, loader: Loader) -> bool:
    """Return whether all that is done with a loader is to go over it in loops that only move and keep its batches."""
    module, name = loader.module, loader.variable
    home = module.scope(loader.node).lookup(name) if name.isidentifier() else []
    uses = [use for use in module.uses.get(name, ()) if home and module.scope(use).lookup(name) is home]
    loads = [use for use in uses if isinstance(use.ctx, ast.Load) and not _is_looked_up(module, use)]
    if len(home) != 1 or not loads:
        return False
    if module.function(loader.node) is None and any(user is not module for user in project.users_of(module, {name})):
        return False  # others may go over the loader of a module
    loops = [_loop_over(module, use) for use in loads]
    return all(loop is not None and _only_moves(project, module, loop.body, MAX_CALLS) for loop in loops)


def _is_looked_up(module: ModuleIndex, use: ast.expr) -> bool:
    """``len(loader)``, ``loader.dataset``"""
    match module.syntax.parents.get(use):
        case ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Attribute(attr="dataset" | "batch_size"):
            return True
    return False


def _loop_over(module: ModuleIndex, use: ast.expr) -> ast.For | None:
    for up in module.syntax.ancestors(use):
        if isinstance(up, ast.For):
            return up if unwrap_iterable(up.iter) is use else None
        if isinstance(up, ast.stmt):
            return None
    return None


def _only_moves(project: Project, module: ModuleIndex, block: list[ast.stmt], calls: int) -> bool:
    for part in (part for statement in block for part in walk(statement)):
        if isinstance(part, ast.BinOp | ast.AugAssign) and isinstance(part.op, ast.MatMult):
            return False
        if isinstance(part, ast.Yield | ast.YieldFrom | ast.Await):
            return False
        if isinstance(part, ast.Call) and not _is_harmless(project, module, part, calls):
            return False
    return True


def _is_harmless(project: Project, module: ModuleIndex, call: ast.Call, calls: int) -> bool:
    """Return whether a call surely runs no model."""
    if not isinstance(call.func, ast.Name | ast.Attribute):
        return False
    found = project.fact(Resolver).callees(module, call)
    if not found:
        return last_name(call.func) in _MOVES
    return calls > 0 and all(
        isinstance(one.node, FUNCTIONS)
        and one.node.name not in ("forward", "__call__", "__init__")
        and _only_moves(project, one.module, one.node.body, calls - 1)
        for one in found
    )
