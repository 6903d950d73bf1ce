"""Permutations on whose order nothing depends: ``scores[order].max()``."""

from __future__ import annotations

import ast

from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_fixers.edits.statements import remove_statement, without_gaps

_REDUCES = frozenset({"max", "min", "sum", "mean", "amax", "amin", "prod", "std", "var", "norm", "numel", "median"})
"""Functions and methods that give the same for any order, if they get nothing else."""


def without_order(module: ModuleIndex, move: ast.expr, made: ast.Call) -> Fix | Declined | None:
    """Take the elements as they are, where a permutation only picks some that are then reduced to one number as a
    whole; None for other tensors."""
    statement = module.syntax.parents.get(move)
    if last_name(made.func) != "randperm" or not isinstance(statement, ast.Assign):
        return None
    uses = _uses(module, statement)
    picks = [module.syntax.parents.get(use) for use in uses]
    if not picks or not all(
        isinstance(pick, ast.Subscript) and pick.slice is use and _is_reduced(module, pick)
        for pick, use in zip(picks, uses, strict=True)
    ):
        return None
    removed = remove_statement(module.syntax, statement)
    match made.args:
        case [ast.Constant(value=int() as number)] if removed is not None and not removed.text:
            gone = [removed] if removed.span.cell is not None else without_gaps(module.syntax.source, [removed])
            edits = (Edit(module.path, module.syntax.span(use), f":{number}") for use in uses)
            told = "which draws fewer random numbers; sums may be rounded differently"
            return Fix(
                f"take the elements in their order, on which nothing depends, {told}", Safety.UNSAFE, (*gone, *edits)
            )
    return Declined("nothing depends on the order: use the elements as they are")


def _is_reduced(module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a value, or each use of the variable that it is kept in, is reduced to one number."""
    match module.syntax.parents.get(value):
        case ast.Assign() as statement if statement.value is value:
            uses = _uses(module, statement)
            return bool(uses) and all(_is_reduced_at_once(module, use) for use in uses)
    return _is_reduced_at_once(module, value)


def _is_reduced_at_once(module: ModuleIndex, value: ast.expr) -> bool:
    match up := module.syntax.parents.get(value):
        case ast.Call(func=ast.Attribute(), args=[only], keywords=[]) if only is value:
            return last_name(up.func) in _REDUCES
        case ast.Attribute(attr=name):
            call = module.syntax.parents.get(up)
            return name in _REDUCES and isinstance(call, ast.Call) and not call.args and not call.keywords
    return False


def _uses(module: ModuleIndex, statement: ast.Assign) -> list[ast.Name]:
    """The uses of the variable that one statement of a function alone sets; none if others set it as well."""
    match statement.targets:
        case [ast.Name(id=name) as target]:
            bindings = module.scope(target).lookup(name)
            same = [one for one in module.named.get(name, ()) if module.scope(one).lookup(name) is bindings]
            return [one for one in same if one is not target] if len(bindings) == 1 else []
    return []
