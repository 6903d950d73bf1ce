"""Which calls run the ``forward`` of a model's class in a loop over batches, also as a part of another model."""

from __future__ import annotations

import ast
from collections import deque
from typing import TYPE_CHECKING

from gpulint.semantic.module_index import FUNCTIONS, FunctionNode, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project


def runs(project: Project) -> dict[FunctionNode, tuple[NodeRef, ...]]:
    """``forward`` of a model of the tree -> the calls of such models that stand in loops over batches, and those of
    their parts (``self.encoder(x)``) in the ``forward`` of another."""
    table: dict[FunctionNode, list[NodeRef]] = {}
    todo = deque[NodeRef]()
    loops = project.loops
    for module in project.training_modules:
        with project.containing(module.path, "loops over loaders"):
            for loop in module.loops:
                around = (loop, *loops.around(module, loop))
                if any(isinstance(up, ast.For) and loops.over_loader(module, up) for up in around):
                    todo += [NodeRef(module, call) for call in loops.calls_in(module, loop)]
    while todo:
        site = todo.popleft()
        assert isinstance(site.node, ast.Call)
        with project.containing(site.module.path, "calls of models"):
            for callee in project.resolver.callees(site.module, site.node):
                function = callee.node
                if isinstance(function, FUNCTIONS) and function.name == "forward":
                    if function not in table:
                        inside = callee.module.calls_of(function)
                        todo += [NodeRef(callee.module, call) for call in inside if _is_part(call.func)]
                    table.setdefault(function, []).append(site)
    return {function: tuple(calls) for function, calls in table.items()}


def _is_part(func: ast.expr) -> bool:
    """``self.encoder``"""
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"
