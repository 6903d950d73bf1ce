"""Which copies of batches belong together: each step waits as long as one of them does."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

from gpulint_rules.data.gpu302_blocking_transfer import Blocking, check

from gpulint.project import Project
from gpulint.query import query
from gpulint.workspace.module_index import FUNCTIONS, LOOPS


@query
def copies_by_block(project: Project, path: Path) -> dict[ast.AST | None, list[Blocking]]:
    """The blocking copies of a module, by the block that each is in."""
    found: dict[ast.AST | None, list[Blocking]] = {}
    document = project.document(path)
    for one in check(document, project) if document is not None else ():
        if isinstance(one.payload, Blocking):
            found.setdefault(block_of(one.payload), []).append(one.payload)
    return found


def block_of(copy: Blocking) -> ast.AST | None:
    """The statement whose body a copy is in."""
    syntax, node = copy.transfers[0].call.module.syntax, copy.transfers[0].node
    statement = next((up for up in (node, *syntax.ancestors(node)) if isinstance(up, ast.stmt)), node)
    return syntax.parents.get(statement)


def copies_beside(project: Project, payload: Blocking) -> list[Blocking]:
    """The other blocking copies of the block, and of those around it in the same round of a loop: as long as one of
    them waits, the host waits for all."""
    nodes = [transfer.node for transfer in payload.transfers]
    module = payload.transfers[0].call.module
    copies, block = copies_by_block(project, module.path), block_of(payload)
    near = [*copies.get(block, ())]
    while block is not None and not isinstance(block, (*LOOPS, *FUNCTIONS)):
        block = module.syntax.parents.get(block)
        near += copies.get(block, ())
    return [one for one in near if one.transfers[0].node not in nodes]


def copies_of_other_branches(project: Project, payload: Blocking) -> list[Blocking]:
    """The same copies in the other branches of a condition (``elif name == "b": x = x.cuda()``), of which each step
    runs one: with one of them alone, a part of the runs would wait as before."""
    block, module = block_of(payload), payload.transfers[0].call.module
    first, branches = block, list[ast.AST]()
    while (
        isinstance(first, ast.If) and isinstance(up := module.syntax.parents.get(first), ast.If) and first in up.orelse
    ):
        first = up
    while isinstance(first, ast.If):
        branches.append(first)
        first = first.orelse[0] if len(first.orelse) == 1 else None
    own = {ast.unparse(transfer.node) for transfer in payload.transfers}
    near = (
        {block, *itertools.takewhile(lambda up: isinstance(up, ast.If), module.syntax.ancestors(block))}
        if block
        else ()
    )
    copies = copies_by_block(project, module.path)
    return [
        one
        for branch in branches
        if branch not in near
        for one in copies.get(branch, ())
        if own & {ast.unparse(transfer.node) for transfer in one.transfers}
    ]
