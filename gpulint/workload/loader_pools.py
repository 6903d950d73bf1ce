"""How many loaders one place makes that a program keeps: workers of all of them would be as many pools."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.callers import callers
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import COMPREHENSIONS, FUNCTIONS, LOOPS, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

SEVERAL = 8
"""Loaders from one place that are more than one for each split of a few data sets."""
DOZENS = 24
"""Loaders from one place whose workers would be more processes than a machine has cores (assumed)."""
_CALLS = 3
"""Calls through which a loader that functions return is followed."""
_TABLES = frozenset({"items", "keys", "values"})
_AROUND = frozenset({"enumerate", "sorted", "list", "tqdm"})


@query
def kept_together(project: Project, loader: Loader) -> int:
    """Return the most loaders that a function makes at one place and keeps, as far as the code says how many: each
    call under a name of its own, or a loop over what is written out."""
    most = 1
    names: Counter[tuple[ModuleIndex, ast.AST | None, ast.AST | None]] = Counter()
    seen = set[tuple[ast.AST | None, str]]()
    for at in callers(project, loader.call, _CALLS):
        most = max(most, _rounds(project, at.ref))
        caller = at.ref.module.function(at.ref.node)
        name, made = _kept_as(at.ref), _callee(project, at.ref)
        if name and (caller, name) not in seen:
            seen.add((caller, name))
            names[at.ref.module, caller, made] += 1
    return max(most, *names.values()) if names else most


def _callee(project: Project, ref: NodeRef) -> ast.AST | None:
    """The function of the tree that a call reaches."""
    found = project.fact(Resolver).callees(ref.module, ref.node) if isinstance(ref.node, ast.Call) else ()
    return next((one.node for one in found if isinstance(one.node, FUNCTIONS)), None)


def _kept_as(ref: NodeRef) -> str:
    """The variables that a call sets, alone or with what else it returns; empty if it sets none."""
    match ref.module.syntax.parents.get(ref.node):
        case ast.Assign(targets=[target], value=value) if value is ref.node:
            return ast.unparse(target)
    return ""


def _rounds(project: Project, ref: NodeRef) -> int:
    """The rounds of the loop or comprehension around a place that keeps what it makes; 1 if they are unknown."""
    inner = ref.node
    for up in ref.module.syntax.ancestors(ref.node):
        if isinstance(up, FUNCTIONS):
            return 1
        if isinstance(up, COMPREHENSIONS) and not isinstance(up, ast.GeneratorExp):
            return _length(project, ref.module, up.generators[0].iter)
        if isinstance(up, LOOPS):
            kept = isinstance(inner, ast.Assign) and any(isinstance(one, ast.Subscript) for one in inner.targets)
            kept = kept or (isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Call))
            return _length(project, ref.module, up.iter) if kept and isinstance(up, ast.For) else 1
        inner = up
    return 1


def _length(project: Project, module: ModuleIndex, source: ast.expr) -> int:
    match source:
        case ast.Call(func=ast.Attribute(value=table, attr=attr), args=[]) if attr in _TABLES:
            return _length(project, module, table)
        case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _AROUND:
            return _length(project, module, first)
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int() as rounds)]):
            return rounds
    return max((_elements(one.node) for one in project.fact(Resolver).points_to(module, source)), default=1)


def _elements(node: ast.AST) -> int:
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            return len(elements)
        case ast.Dict(keys=keys):
            return len(keys)
    return 1
