"""Loops in which what a model returns goes into its next call: the steps of a sampler, the tokens of a decoder."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.inference_loops import InferenceLoop
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, ModuleIndex, last_name

_CUTS = frozenset(
    "detach item tolist numpy argmax argmin argsort multinomial bernoulli long int bool round sign sample nonzero "
    "no_grad size decode batch_decode".split()
)
"""Calls whose results carry no graph: copies, numbers, choices."""
_SHAPES = frozenset({"shape", "dtype", "device", "grad", "data"})
"""Attributes of a tensor that carry no graph."""
_ADDS = frozenset({"append", "extend", "insert"})


@query
def chains_graphs(project: Project, module: ModuleIndex, found: InferenceLoop) -> bool:
    """Return whether each round of a loop hands the model something that an earlier round has computed with it, and
    keeps the graph of it: ``latents = scheduler.step(unet(latents, t), t, latents).prev_sample``."""
    for up in module.syntax.ancestors(found.forward) if found.loop is not None else ():
        if isinstance(up, LOOPS) and _chains(module, up, found.forward, _parts_without_graph(project, found)):
            return True
        if up is found.loop or isinstance(up, FUNCTIONS):
            return False
    return False


def _parts_without_graph(project: Project, found: InferenceLoop) -> frozenset[int]:
    """Return which parts of what a call returns carry no graph (0 of ``return action.item(), log_prob``)."""
    callees = project.fact(Resolver).callees(found.module, found.forward)
    functions = [one.node for one in callees if isinstance(one.node, FUNCTIONS)]
    returned = [value for one in functions for value in project.fact(Resolver).returns(one)]
    parts = [
        {at for at, part in enumerate(value.elts) if _is_cut(part)} if isinstance(value, ast.Tuple) else set[int]()
        for value in returned
    ]
    return frozenset(set.intersection(*parts)) if parts else frozenset()


def _is_unpacked(statement: ast.stmt) -> bool:
    """``action, _ = policy.act(state)``"""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=parts)]):
            return all(isinstance(part, ast.Name) for part in parts)
    return False


def _is_cut(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) or (isinstance(value, ast.Call) and last_name(value.func) in _CUTS)


def _chains(module: ModuleIndex, loop: ast.AST, forward: ast.Call, without: frozenset[int]) -> bool:
    carried, met = _round(module, loop, forward, frozenset(), without)
    return met or _round(module, loop, forward, carried, without)[1]


def _round(
    module: ModuleIndex, loop: ast.AST, forward: ast.Call, before: frozenset[str], without: frozenset[int]
) -> tuple[frozenset[str], bool]:
    """Return the names that carry the model's graph after one round, and whether one of them was given to it."""
    loops = (part for part in walk(loop) if isinstance(part, ast.For | ast.AsyncFor))
    carried = set(before).difference(name for one in loops for name in _names(one.target))
    given = [*forward.args, *(keyword.value for keyword in forward.keywords)]
    for statement in _statements(loop):
        if forward in walk(statement) and any(_carries(value, carried, None) for value in given):
            return frozenset(carried), True
        source, names = _stored(statement)
        if source is None:
            continue
        if source is forward and _is_unpacked(statement):
            names = [name for at, name in enumerate(names) if at not in without]
        if _carries(source, carried, forward):
            carried.update(names)
        elif isinstance(statement, ast.Assign) and module.syntax.parents.get(statement) is loop:
            carried.difference_update(names)
    return frozenset(carried), False


def _is_of_environment(called: ast.expr) -> bool:
    """``env.step(action)``, which computes on the host"""
    match called:
        case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr="step" | "reset"):
            return "env" in name.lower()
    return False


def _statements(loop: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a loop in their order, but those that hold others."""
    found = (part for part in walk(loop) if isinstance(part, ast.stmt) and not hasattr(part, "body"))
    inner = {part for up in walk(loop) if isinstance(up, FUNCTIONS) for part in walk(up)}
    yield from sorted((one for one in found if one not in inner), key=lambda one: (one.lineno, one.col_offset))


def _stored(statement: ast.stmt) -> tuple[ast.expr | None, list[str]]:
    """Return what a statement stores, and under which names."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            return value, [name for target in targets for name in _names(target)]
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
            return value, _names(target)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=adds), args=[value])):
            return (value, [name]) if adds in _ADDS else (None, [])
    return None, []


def _names(target: ast.expr) -> list[str]:
    match target:
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)):
            return [name]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [name for part in parts for name in _names(part)]
        case ast.Starred(value=inner):
            return _names(inner)
    return []


def _carries(value: ast.AST, carried: set[str], forward: ast.Call | None) -> bool:
    """Return whether an expression has a graph of the model, by its call or a name that carries it."""
    match value:
        case ast.Call() if value is forward:
            return True
        case ast.Name(id=name):
            return name in carried
        case ast.Call(func=func) if last_name(func) in _CUTS or _is_of_environment(func):
            return False
        case ast.Attribute(attr=attr) if attr in _SHAPES:
            return False
        case ast.Compare() | ast.Lambda():
            return False
    return any(_carries(part, carried, forward) for part in ast.iter_child_nodes(value))
