"""Which calls run the ``forward`` of a model's class in a loop over batches, also as a part of another model."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.facts.scopes import FUNCTIONS, FunctionNode, Ref

if TYPE_CHECKING:
    from gpulint.project import Project


def runs(project: Project, path: Path) -> Iterator[tuple[Path, FunctionNode, Ref]]:
    """File and ``forward`` of a model of the tree, and a call of such a model that stands in a loop over batches of the
    module in ``path``, or one of its parts (``self.encoder(x)``) in the ``forward`` of another."""
    scopes = project.scopes_at(path)
    seen = set[FunctionNode]()
    todo = deque[Ref]()
    loops = project.loops
    for loop in scopes.loops if scopes is not None else ():
        assert scopes is not None
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
                    if function not in seen:
                        seen.add(function)
                        inside = callee.scopes.calls_of(function)
                        todo += [Ref(callee.scopes, call) for call in inside if _is_part(call.func)]
                    yield callee.scopes.path, function, site


def _is_part(func: ast.expr) -> bool:
    """``self.encoder``"""
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"
