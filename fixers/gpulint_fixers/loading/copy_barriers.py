"""Barriers right below a copy, with which nothing is left to overlap."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.device_transfers import Transfer
from gpulint.workspace.module_index import LOOPS, ModuleIndex, last_name

_BARRIER = regex.compile(r"(torch\.)?(cuda|accelerator|xpu)\.synchronize$")
_CHEAP = frozenset(
    "to cuda float double half long int bool view reshape squeeze unsqueeze permute transpose contiguous size "
    "requires_grad_ time perf_counter strftime len str range print append get".split()
)
"""Calls that give the GPU no work of the step."""


def barrier_below(transfer: Transfer) -> int | None:
    """Return the line of a ``torch.cuda.synchronize()`` before which nothing but copies runs after a copy; None where
    the step computes first, or waits for nothing."""
    module = transfer.call.module
    statement = next(
        (up for up in (transfer.node, *module.syntax.ancestors(transfer.node)) if isinstance(up, ast.stmt)), None
    )
    if statement is None or not _is_cheap(statement):
        return None
    while statement is not None:
        for after in _below(module, statement):
            if _is_barrier(after):
                return after.lineno
            if not _is_cheap(after):
                return None
        up = module.syntax.parents.get(statement)
        statement = up if isinstance(up, ast.If | ast.With) else None
    return None


def _below(module: ModuleIndex, statement: ast.stmt) -> list[ast.stmt]:
    """The statements of the same block below one."""
    place, parent = module.syntax.place(statement), module.syntax.parents.get(statement)
    return [] if place is None or parent is None else getattr(parent, place[0])[place[1] + 1 :]


def _is_barrier(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=func)):
            return _BARRIER.search(ast.unparse(func)) is not None
    return False


def _is_cheap(statement: ast.stmt) -> bool:
    if isinstance(statement, (*LOOPS, ast.Return, ast.Break, ast.Continue)):
        return False
    return all(last_name(part.func) in _CHEAP for part in walk(statement) if isinstance(part, ast.Call))
