"""Calls that pick items of lists at random, and the loops that repeat them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.semantic.points_to import Resolver

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex, NodeRef

_DRAWS = frozenset({"random.choice", "random.choices", "random.sample"})
"""What picks some items of a list, in about a microsecond each; that of NumPy first makes an array of the list."""
_SEVERAL = 2


def draws(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call picks items of a list at random."""
    names = project.fact(Resolver).call_names(module, call)
    return bool(names) and names <= _DRAWS


def loops_around(function: NodeRef, call: ast.Call) -> int:
    """Return how many loops of a function repeat a call; ``while``, which does not count its rounds, is several."""
    found, inner = 0, ast.AST()
    for up in (call, *function.module.syntax.ancestors(call)):
        match up:
            case _ if up is function.node:
                break
            case ast.For(iter=iterated):
                found += iterated is not inner
            case ast.comprehension(iter=iterated):
                found += iterated is not inner
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                found += len(up.generators) if inner not in up.generators else up.generators.index(inner)
            case ast.While() | ast.AsyncFor():
                found += _SEVERAL
        inner = up
    return found
