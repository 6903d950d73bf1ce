"""How many micro-steps an accumulation of gradients takes by default."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.assessment.subject import node_at
from gpulint.documents.python import walk
from gpulint.semantic.path_conditions import conditions
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject


def accumulates_once(subject: Subject) -> bool:
    """Return whether no number of micro-steps in an accumulation (``step % args.accumulate``, ``for _ in
    range(args.accumulate)``) is known to be more than one."""
    places = [(subject.module, subject.node)]
    for place in subject.finding.related:
        module = subject.project.module_at(place.path)
        places.append((module, node_at(module, place.span) if module is not None else None))
    constants = subject.project.fact(Constants)
    return not any(
        constants.of(module, count).any(lambda value: isinstance(value, int) and value > 1)
        for module, node in places
        if module is not None and node is not None
        for count in _micro_steps(module, node)
    )


def _micro_steps(module: ModuleIndex, node: ast.AST) -> Iterator[ast.expr]:
    """Yield what may be the number of micro-steps around a backward pass or an update."""
    for whole in (node, *(test for test, _ in conditions(module, node))):
        for part in walk(whole):
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod):
                yield part.right
    loop = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.For)), None)
    match loop:
        case ast.For(iter=ast.Call(func=ast.Name(id="range" | "trange"), args=[count])):
            yield count
