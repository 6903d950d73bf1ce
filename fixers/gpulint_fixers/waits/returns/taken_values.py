"""What a loop adds up or lists, where the value may be a tensor from now on."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint import regex
from gpulint.fix import Declined, Edit, Fix
from gpulint.project import Project
from gpulint.workspace.module_index import LoopNode, ModuleIndex
from gpulint_fixers.waits.deferred_reads import Variable
from gpulint_fixers.waits.device_reads import DeviceRead
from gpulint_fixers.waits.lists.device_lists import kept
from gpulint_fixers.waits.lists.device_tables import kept_by_key
from gpulint_fixers.waits.sums.device_sums import added_up
from gpulint_fixers.waits.sums.keyed_sums import added_by_key

_DETACHED = regex.compile(r"^\.detach\(\)(\.clone\(\))?")
"""What a tensor needs no more that the function has detached."""


def taken(
    project: Project, module: ModuleIndex, loop: LoopNode, statement: ast.AST | None, value: ast.expr, *, integers: bool
) -> tuple[Edit, ...] | Declined:
    """``total += value`` and ``values.append(value)``, also of the entries of a table; Declined for all else."""
    document, end = project.document(module.path), module.syntax.offsets(value)[1]
    assert document is not None
    read = DeviceRead(value, value, end)
    made: Fix | Declined = Declined("the value is used otherwise in every step")
    match statement:
        case ast.AugAssign(target=ast.Name(id=total), op=ast.Add() | ast.Sub(), value=added):
            made = added_up(project, Variable(module, document, loop, total), added, [read], integers=integers)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append", value=ast.Name(id=values)), args=[added])):
            if added is value:
                listed = Variable(module, document, loop, values)
                made = kept(project, listed, statement, added, [read], integers=integers)
        case (
            ast.AugAssign(target=ast.Subscript(value=ast.Name()), op=ast.Add())
            | ast.Assign(targets=[ast.Subscript(value=ast.Name())], value=ast.BinOp())
        ):
            made = added_by_key(project, module, statement, loop, [read])
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(attr="append", value=ast.Subscript() | ast.Attribute() as target), args=[added]
            )
        ):
            if added is value and not integers:
                made = kept_by_key(project, module, statement, loop, target, [read])
    if isinstance(made, Declined):
        return made
    at = module.syntax.span_at(end, end)
    detached = (replace(edit, text=_DETACHED.sub("", edit.text)) if edit.span == at else edit for edit in made.edits)
    return tuple(edit for edit in detached if edit.text or edit.span != at)
