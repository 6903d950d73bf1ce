"""Sums that several loops of a function add to in the same way, before anything reads them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpulint.fix import Edit
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex
from gpulint_fixers.edits.statements import insert_above

if TYPE_CHECKING:
    from gpulint_fixers.waits.deferred_reads import Variable


def read_below_all(
    variable: Variable, convert: str, own: Iterable[ast.stmt], reads: Iterable[ast.Name]
) -> list[Edit] | None:
    """One line that converts the sum below all loops of its function which add the same to it, above the first
    statement that reads it; None where there is one loop, or a statement between them reads the sum."""
    module, function = variable.module, variable.module.function(variable.loop)
    if not isinstance(function, FUNCTIONS) or not convert.startswith(("int(", "float(")):
        return None
    said = {ast.unparse(one.value) for one in own if isinstance(one, ast.AugAssign)}
    others, rest = list[ast.AugAssign](), list[ast.Name]()
    for node in reads:
        up = module.syntax.parents.get(node)
        same = isinstance(up, ast.AugAssign) and isinstance(up.op, ast.Add) and ast.unparse(up.value) in said
        if same and isinstance(up, ast.AugAssign):
            others.append(up)
        else:
            rest.append(node)
    if not others or not rest:
        return None
    outer = {id(statement): at for at, statement in enumerate(function.body)}

    def place(node: ast.AST) -> int:
        """The statement of the function that holds a node, counted from its top."""
        return next((outer[id(up)] for up in (node, *module.syntax.ancestors(node)) if id(up) in outer), -1)

    first = min(map(place, rest))
    if first <= max(map(place, (variable.loop, *others))) or not _falls_through(module, variable.loop, function):
        return None
    edit = insert_above(module.syntax, function.body[first], f"{variable.name} = {convert.format(variable.name)}")
    return [edit] if edit is not None else None


def _falls_through(module: ModuleIndex, loop: ast.AST, function: ast.AST) -> bool:
    """Return whether the function goes on below a loop: it has no ``else``, and no handler of an exception is around it
    that could read the sum."""
    return not getattr(loop, "orelse", ()) and not any(
        isinstance(up, ast.Try) for up in module.syntax.ancestors(loop) if up is not function
    )
