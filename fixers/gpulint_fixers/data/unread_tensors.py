"""Tensors that a function makes and nothing reads."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.fix import Fix, Safety
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name
from gpulint_fixers.edits.statements import remove_statement, without_gaps

_PURE = frozenset({"size", "len", "int", "float", "min", "max"})
_FINDS = ("locals", "vars", "eval", "exec")
"""Functions that find a variable without its name."""


def without_unread(module: ModuleIndex, move: ast.Call, made: ast.Call, *, random: bool) -> Fix | None:
    """Remove ``mask = torch.zeros(n).to(device)``, which nothing in its function reads; None for all else."""
    function, statement = module.function(move), module.syntax.parents.get(move)
    if not isinstance(function, FUNCTIONS) or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or any(module.calls_by_name.get(name) for name in _FINDS):
        return None
    calls = (part for part in walk(statement.value) if isinstance(part, ast.Call) and part not in (move, made))
    if any(last_name(call.func) not in _PURE for call in calls):
        return None
    for part in walk(function):
        match part:
            case ast.Name(id=name) if name == target.id and part is not target:
                return None
            case ast.Global(names=names) | ast.Nonlocal(names=names) if target.id in names:
                return None
    edit = remove_statement(module.syntax, statement)
    if edit is None or edit.text:
        return None
    edits = without_gaps(module.syntax.source, [edit]) if edit.span.cell is None else [edit]
    what = f"remove `{target.id}`, which nothing reads"
    if random:
        return Fix(f"{what}; the random numbers that follow change", Safety.UNSAFE, tuple(edits))
    return Fix(what, Safety.SAFE, tuple(edits))
