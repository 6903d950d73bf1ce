"""How often the loops of a model run a place at most, as far as its literals, layers and settings tell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, ModuleIndex, NodeRef, dotted, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_DEPTH = 8
"""How deep modules, functions and lists of layers within others are followed."""


def most(counts: list[int | None]) -> int | None:
    """Return the largest of some counts; None where one of them is unknown."""
    known = [count for count in counts if count is not None]
    return max(known) if known and len(known) == len(counts) else None


def repeats(project: Project, module: ModuleIndex, node: ast.AST) -> int | None:
    """Return how often loops of a function run a place at most; None where one of them does not say."""
    times = 1
    for up in module.syntax.ancestors(node):
        match up:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                break
            case ast.While():
                return None
            case ast.For():
                if node in walk(up.iter):
                    continue
                sources = [up.iter]
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                sources = [part.iter for part in up.generators]
            case ast.BinOp(op=ast.Mult(), left=ast.List(), right=count):
                sources = [ast.Call(ast.Name("range", ast.Load()), [count], [])]
            case _:
                continue
        for source in sources:
            rounds = _rounds(project, module, source, MAX_DEPTH)
            if rounds is None:
                return None
            times *= rounds
    return times


def _rounds(project: Project, module: ModuleIndex, source: ast.expr, depth: int) -> int | None:
    """The most items of what a loop runs over."""
    match source:
        case ast.List(elts=[]) | ast.Call(func=ast.Name(id="ModuleList") | ast.Attribute(attr="ModuleList"), args=[]):
            return _appended(project, NodeRef(module, source))
        case ast.List(elts=items) | ast.Tuple(elts=items) if not any(isinstance(one, ast.Starred) for one in items):
            return len(items)
        case ast.Call(func=ast.Name(id="range"), args=[*_, count]) if len(source.args) <= 2:
            return _number(project, module, count)
        case ast.Call(func=ast.Name(id="len"), args=[inner]):
            return _rounds(project, module, inner, depth - 1) if depth > 0 else None
        case ast.Call(func=ast.Name(id="enumerate" | "reversed" | "list" | "tuple"), args=[inner, *_]):
            return _rounds(project, module, inner, depth - 1) if depth > 0 else None
        case ast.Call(func=ast.Name(id="zip"), args=parts):
            found = [_rounds(project, module, part, depth - 1) for part in parts] if depth > 0 else []
            return min((count for count in found if count is not None), default=None)
        case ast.ListComp(generators=[generator]):
            return _rounds(project, module, generator.iter, depth - 1) if depth > 0 else None
        case ast.Subscript(value=table) if not isinstance(source.slice, ast.Slice) and depth > 0:
            return _most_inside(project, module, table, depth - 1)
        case ast.Name() | ast.Attribute() if depth > 0:
            refs = [*_origins(project, module, source)]
            return most([_rounds(project, ref.module, ref.node, depth - 1) for ref in refs]) if refs else None  # type: ignore[arg-type]
    return None


def _most_inside(project: Project, module: ModuleIndex, table: ast.expr, depth: int) -> int | None:
    """The most items of a list in a list: of ``widths[i]`` for ``widths=[[16, 32], [32, 64, 64]]``."""
    counts = list[int | None]()
    for ref in _origins(project, module, table):
        match ref.node:
            case ast.List(elts=[_, *_] as rows) | ast.Tuple(elts=[_, *_] as rows):
                counts += [_rounds(project, ref.module, row, depth) for row in rows]
            case ast.List() | ast.Call(args=[]) as made:
                added = _additions(ref.module, made)
                counts += [_rounds(project, ref.module, call.args[0], depth) for call in added] or [None]
            case _:
                return None
    return most(counts)


def _origins(project: Project, module: ModuleIndex, source: ast.expr) -> Iterator[NodeRef]:
    for ref in project.fact(Resolver).points_to(module, source):
        if ref.node is source or ref.path:
            return
        if isinstance(ref.node, ast.Call) and last_name(ref.node.func) in ("ModuleList", "Sequential"):
            match ref.node.args:
                case []:
                    yield ref
                case [ast.Starred(value=inner)] | [inner]:
                    yield NodeRef(ref.module, inner)
                case parts:
                    yield NodeRef(ref.module, ast.Tuple(parts, ast.Load()))
        else:
            yield ref


def _number(project: Project, module: ModuleIndex, count: ast.expr) -> int | None:
    match count:
        case ast.Call(func=ast.Name(id="len"), args=[inner]):
            return _rounds(project, module, inner, MAX_DEPTH)
    known = project.fact(Constants).of(module, count)
    numbers = [value for value in known.constants if isinstance(value, int)]
    return max(numbers) if known.complete and numbers and len(numbers) == len(known.values) else None


def _appended(project: Project, made: NodeRef) -> int | None:
    """The most layers that a list gets where it is made empty: ``self.convs.append(...)``; None if unknown."""
    around = {*made.module.syntax.ancestors(made.node)}
    counts = [_times(project, made.module, call, around) for call in _additions(made.module, made.node)]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _times(project: Project, module: ModuleIndex, call: ast.Call, around: set[ast.AST]) -> int | None:
    """Return how often a call runs each time that a list is made, which has some loops ``around`` it."""
    times = 1
    for up in module.syntax.ancestors(call):
        if isinstance(up, FUNCTIONS):
            break
        if isinstance(up, LOOPS) and up not in around:
            rounds = _rounds(project, module, up.iter, MAX_DEPTH) if isinstance(up, ast.For) else None
            if rounds is None:
                return None
            times *= rounds
    return times


@query
def _additions(module: ModuleIndex, made: ast.AST) -> tuple[ast.Call, ...]:
    """The calls of ``append`` that fill a list in the function that makes it empty."""
    match module.syntax.parents.get(made):
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]):
            name, function = dotted(target), module.function(made)
            calls = module.calls_by_name.get("append", ())
            return tuple(
                call
                for call in calls
                if dotted(call.func) == f"{name}.append" and module.function(call) is function and len(call.args) == 1
            )
    return ()
