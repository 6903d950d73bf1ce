"""What a data set is a part of, or is put together from."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

SPLITS = frozenset({"random_split", "Subset", "ConcatDataset", "shuffle", "train_test_split"})
"""Calls whose result is a part of a data set, or several together."""
MAX_STEPS = 12
"""Most expressions that are looked at to find out what a data set is."""


def made_from(project: Project, sources: Iterable[NodeRef]) -> list[NodeRef]:
    """Return the expressions that make data sets, without what takes a part of them or puts several together."""
    todo = list(sources)
    found, seen = list[NodeRef](), set[ast.AST]()
    while todo and len(seen) < MAX_STEPS:
        where = todo.pop(0)
        if where.node in seen or not isinstance(where.node, ast.expr):
            continue
        seen.add(where.node)
        origins = project.fact(Resolver).points_to(where.module, where.node)
        inner = [part for ref in origins for part in held_by(ref)]
        todo += inner
        if not inner:
            found += [ref for ref in origins if isinstance(ref.node, ast.expr)]
    return found


def held_by(where: NodeRef) -> Iterator[NodeRef]:
    """Yield the data sets that one is a part of, or that it puts together."""
    node = where.node
    if isinstance(node, ast.Subscript):
        yield NodeRef(where.module, node.value)
    elif isinstance(node, ast.Call) and last_name(node.func) in SPLITS:
        if isinstance(node.func, ast.Attribute) and not node.args:
            yield NodeRef(where.module, node.func.value)
        for argument in node.args[:1]:
            parts = argument.elts if isinstance(argument, ast.List | ast.Tuple) else [argument]
            yield from (NodeRef(where.module, part) for part in parts)
