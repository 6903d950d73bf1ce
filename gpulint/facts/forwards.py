"""Which calls run the ``forward`` of a model's class in a loop over batches, also as a part of another model."""

from __future__ import annotations

import ast
from collections import deque
from typing import TYPE_CHECKING

from gpulint.facts.scopes import FUNCTIONS, FunctionNode, Ref

if TYPE_CHECKING:
    from gpulint.project import Project


def runs(project: Project) -> dict[FunctionNode, tuple[Ref, ...]]:
    """``forward`` of a model of the tree -> the calls of such models that stand in loops over batches, and those of
    their parts (``self.encoder(x)``) in the ``forward`` of another."""
    table: dict[FunctionNode, list[Ref]] = {}
    todo = deque[Ref]()
    loops = project.loops
    for scopes in project.training_modules():
        with project.containing(scopes.path, "loops over loaders"):
            for loop in scopes.loops:
                around = (loop, *loops.around(scopes, loop))
                if any(isinstance(up, ast.For) and loops.over_loader(scopes, up) for up in around):
                    todo += [Ref(scopes, call) for call in loops.calls_in(scopes, loop)]
    while todo:
        site = todo.popleft()
        assert isinstance(site.node, ast.Call)
        with project.containing(site.scopes.path, "calls of models"):
            for callee in project.resolver.callees(site.scopes, site.node):
                function = callee.node
                if isinstance(function, FUNCTIONS) and function.name == "forward":
                    if function not in table:
                        inside = callee.scopes.calls_of(function)
                        todo += [Ref(callee.scopes, call) for call in inside if _is_part(call.func)]
                    table.setdefault(function, []).append(site)
    return {function: tuple(calls) for function, calls in table.items()}


def _is_part(func: ast.expr) -> bool:
    """``self.encoder``"""
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"
