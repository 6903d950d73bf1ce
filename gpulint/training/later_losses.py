"""Losses that are made of what a loop collects over all of its rounds, and propagated below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.training.differentiation import MAX_ASSIGNED, propagates
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, LoopNode, ModuleIndex, dotted, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_WITHOUT_GRAPH = frozenset(
    "detach detach_ data item tolist numpy float int bool len argmax argmin argsort eq ne gt lt size shape".split()
)
"""What leaves no graph of a tensor."""
_FILLS = frozenset({"append", "extend", "add", "insert", "appendleft", "push", "store", "remember"})


@query
def collects_loss(project: Project, module: ModuleIndex, loop: LoopNode, forward: ast.Call) -> bool:
    """Return whether a loop collects what a model computes (``outputs.append(model(x))``, ``total += loss``), and a
    loss that is made of it is propagated below the loop, once for all of its rounds; or, where an object, a variable of
    the module or what the function gets keeps it, in another method or function."""
    kept = _collected(loop, forward)
    if not kept:
        return False
    function = module.function(loop)
    around = {*project.fact(LoopContexts).around(module, loop)}
    end = loop.end_lineno or loop.lineno
    below = [
        step
        for step in module.calls_of(function)
        if step.lineno > end
        and around.issuperset(project.fact(LoopContexts).around(module, step))
        and propagates(project, module, step)
    ]
    if _made_of(module, function, below, end) & kept:
        return True
    of_self = frozenset(name for name in kept if name.startswith("self."))
    return _is_propagated(project, module, _other_methods(module, function), of_self) or _is_propagated(
        project, module, _other_functions(module, function), _shared(module, function, kept - of_self)
    )


def _is_propagated(
    project: Project, module: ModuleIndex, functions: Iterator[FunctionNode], kept: frozenset[str]
) -> bool:
    """Return whether one of several functions propagates what is made of something with a graph."""
    return bool(kept) and any(
        kept & _made_of(module, function, steps, 0)
        for function in functions
        if (steps := [call for call in module.calls_of(function) if propagates(project, module, call)])
    )


def _other_methods(module: ModuleIndex, function: FunctionNode | None) -> Iterator[FunctionNode]:
    owner = module.syntax.parents.get(function) if function is not None else None
    if isinstance(owner, ast.ClassDef):
        yield from (part for part in owner.body if isinstance(part, FUNCTIONS) and part is not function)


def _other_functions(module: ModuleIndex, function: FunctionNode | None) -> Iterator[FunctionNode]:
    functions: Iterator[ast.FunctionDef | ast.AsyncFunctionDef] = module.syntax.of(
        ast.FunctionDef, ast.AsyncFunctionDef
    )
    return (part for part in functions if part is not function)


def _shared(module: ModuleIndex, function: FunctionNode | None, kept: frozenset[str]) -> frozenset[str]:
    """Return those names of what outlives a call of a function: parts of its parameters, variables of its module."""
    if function is None or isinstance(function, ast.Lambda):
        return frozenset()
    own = {part.id for part in walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return frozenset(name for name in kept if name.partition(".")[0] not in own)


def _collected(loop: LoopNode, forward: ast.Call) -> frozenset[str]:
    """Names of what takes something of each round, with the graph of what ``forward`` computes."""
    holders, kept = set[str](), set[str]()
    for part in walk(loop):
        match part:
            case ast.Assign(targets=[target], value=value) if _holds(value, forward, holders):
                name = dotted(target.value) if isinstance(target, ast.Subscript) else dotted(target)
                if isinstance(target, ast.Subscript) or any(
                    dotted(inner) == name != "" for inner in parts_with_graph(value)
                ):
                    kept.add(name)
                holders |= {dotted(inner) for inner in (target.elts if isinstance(target, ast.Tuple) else [target])}
            case ast.AugAssign(target=target, value=value) if _holds(value, forward, holders):
                kept.add(dotted(target))
            case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=given) if attr in _FILLS:
                if any(_holds(value, forward, holders) for value in given):
                    kept.add(dotted(owner))
    return frozenset(kept - {""})


def _holds(value: ast.expr, forward: ast.Call, holders: set[str]) -> bool:
    return any(part is forward or dotted(part) in holders - {""} for part in parts_with_graph(value))


def parts_with_graph(value: ast.expr) -> Iterator[ast.expr]:
    """The parts of a value whose graphs it keeps."""
    if isinstance(value, ast.Compare) or (isinstance(value, ast.Attribute) and value.attr in _WITHOUT_GRAPH):
        return
    if isinstance(value, ast.Call) and last_name(value.func) in _WITHOUT_GRAPH:
        return
    yield value
    for part in ast.iter_child_nodes(value):
        inner = part.value if isinstance(part, ast.keyword) else part
        inner = inner.iter if isinstance(inner, ast.comprehension) else inner
        if isinstance(inner, ast.expr):
            yield from parts_with_graph(inner)


def _set_by(part: ast.AST) -> Iterator[tuple[str, ast.expr, bool]]:
    """Yield what a statement sets, puts into a list, or takes from one: its name, the value, and whether it is set
    anew."""
    match part:
        case ast.Assign(targets=targets, value=value):
            yield from ((dotted(target), value, True) for target in targets)
        case ast.AugAssign(target=target, value=value):
            yield dotted(target), value, False
        case ast.For(target=target, iter=value):
            yield from ((one.id, value, True) for one in walk(target) if isinstance(one, ast.Name))
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=given) if attr in _FILLS:
            yield from ((dotted(owner), value, False) for value in given)


def _made_of(module: ModuleIndex, function: FunctionNode | None, steps: list[ast.Call], after: int) -> frozenset[str]:
    """Names that what is propagated is made of, as far as the assignments below a line tell."""
    names = {dotted(part) for step in steps for part in parts_with_graph(step)} - {""}
    if not names:
        return frozenset()
    statements: Iterator[ast.stmt | ast.Call] = module.syntax.of(ast.Assign, ast.AugAssign, ast.For, ast.Call)
    assigned = [
        one for part in statements if part.lineno > after and module.function(part) is function for one in _set_by(part)
    ]
    for _ in range(MAX_ASSIGNED):
        found = {
            dotted(part) for target, value, _ in assigned if target in names for part in parts_with_graph(value)
        } - {""}
        if found <= names:
            break
        names |= found
    anew = {
        name
        for name, value, is_set in assigned
        if is_set and all(dotted(part) != name for part in parts_with_graph(value))
    }
    return frozenset(names - (anew if after else set()))
