"""What a training loop does in all of its steps."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import ModuleIndex, source_text

_FIRST_PROCESS = regex.compile(
    r"\b(local_|global_)?rank\b|\bis_(main|master)\b|main_process|rank_zero|global_zero|get_rank"
)


def holds_in_all_steps(module: ModuleIndex, test: ast.expr, loop: ast.AST | None) -> bool:
    """Return whether a test holds in all steps of a process, where it holds in one: ``rank == 0``, ``self.tracker is
    not None``.

    The others wait for the process of rank 0 when they exchange gradients.
    """
    match test:
        case ast.Compare(
            left=ast.Name() | ast.Attribute() as left, ops=[ast.IsNot()], comparators=[ast.Constant(None)]
        ):
            return loop is None or ast.unparse(left) not in _set_in(module, loop)
        case ast.Compare(ops=[ast.Eq() | ast.Is()]) | ast.Name() | ast.Attribute() | ast.Call():
            return _FIRST_PROCESS.search(source_text(module, test)) is not None
    return False


def trained_on(loop: ast.AST) -> set[str]:
    """The losses of a loop: ``loss.backward()``."""
    return {
        ast.unparse(call.func.value)
        for call in walk(loop)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
        if not call.args
    }


@query
def _set_in(_module: ModuleIndex, loop: ast.AST) -> frozenset[str]:
    """The variables and attributes that a loop sets."""
    names = (part for part in walk(loop) if isinstance(part, ast.Name | ast.Attribute))
    return frozenset(ast.unparse(part) for part in names if isinstance(part.ctx, ast.Store))
