"""Samples that are made with NumPy's global random state, which forked workers share before PyTorch 1.9."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workload.changed_parts import makers_of
from gpulint.workspace.module_index import FUNCTIONS

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_DRAWS = "numpy.random."
_NO_DRAWS = frozenset({"seed", "default_rng", "get_state", "set_state"})
_HELPERS = 2
"""Calls through which functions that samples are made with are followed."""


@query
def numpy_draw(project: Project, loader: Loader) -> str:
    """Return the name of a function of NumPy with which samples are drawn at random; empty if there is none."""
    todo, seen = [(one, _HELPERS) for one in makers_of(project, loader)], set[ast.AST]()
    resolver = project.fact(Resolver)
    while todo:
        maker, depth = todo.pop()
        if maker.node in seen:
            continue
        seen.add(maker.node)
        for call in walk(maker.node):
            if not isinstance(call, ast.Call):
                continue
            for name in sorted(resolver.call_names(maker.module, call)):
                last = name.rpartition(".")[2]
                if name.startswith(_DRAWS) and last.islower() and last not in _NO_DRAWS:
                    return name
            if depth:
                callees = resolver.callees(maker.module, call)
                todo += [(one, depth - 1) for one in callees if isinstance(one.node, FUNCTIONS)]
    return ""
