"""Factors that a loop tests on the GPU before it multiplies with them: a clamped factor needs no test."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.fix import Edit
from gpulint.placement.sync_points import SyncKind
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.workspace.module_index import ModuleIndex

_SURE = frozenset({SyncKind.READ, SyncKind.TEST, SyncKind.SELECT, SyncKind.BARRIER})


def without_tests(project: Project, module: ModuleIndex, loop: ast.For, read: ast.expr) -> tuple[Edit, ...] | None:
    """The edits after which a loop waits in no other place than in one read; None if another wait stays."""
    inside, own = set(walk(loop)), set(walk(read))
    edits = list[Edit]()
    for sync in project.fact(SyncPoints).in_module(module):
        if sync.kind not in _SURE or sync.node not in inside or sync.node in own:
            continue
        branch = module.syntax.parents.get(sync.node)
        edit = _clamped(module, branch) if isinstance(branch, ast.If) and branch.test is sync.node else None
        if edit is None:
            return None
        edits.append(edit)
    return tuple(edits)


def _clamped(module: ModuleIndex, branch: ast.If) -> Edit | None:
    """``g.mul_(c.clamp(max=1))`` for ``if c < 1: g.mul_(c)``: a factor of 1 changes nothing."""
    match branch:
        case ast.If(
            test=ast.Compare(left=ast.Name(id=name), ops=[ast.Lt() | ast.LtE()], comparators=[ast.Constant(value=1)]),
            body=[
                ast.Expr(
                    value=ast.Call(func=ast.Attribute(attr="mul_"), args=[ast.Name(id=factor) as used], keywords=[])
                )
                | ast.AugAssign(op=ast.Mult(), value=ast.Name(id=factor) as used)
            ],
            orelse=[],
        ) if name == factor:
            syntax, body = module.syntax, branch.body[0]
            start, end = syntax.offsets(body)
            text, at = syntax.source.text, syntax.offsets(used)[1]
            if "\n" in text[start:end] or "#" in text[syntax.offsets(branch)[0] : end]:
                return None
            return Edit(module.path, syntax.span(branch), f"{text[start:at]}.clamp(max=1){text[at:end]}")
    return None


def _factor(statement: ast.stmt) -> ast.Name | None:
    """The variable that a statement multiplies with in place: ``g.mul_(c)``, ``g *= c``."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="mul_"), args=[ast.Name() as used], keywords=[])):
            return used
        case ast.AugAssign(op=ast.Mult(), value=ast.Name() as used):
            return used
    return None
