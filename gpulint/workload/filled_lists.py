"""Lists that loops fill with a known number of items: ``for _ in range(n - len(rows)): rows.append(draw())``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import LOOPS, BindingKind, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_ADDS = ("append", "extend", "insert")


def is_empty_list(node: ast.AST) -> bool:
    """Return whether a node is ``[]`` or ``list()``."""
    match node:
        case ast.List(elts=[]) | ast.Call(func=ast.Name(id="list"), args=[], keywords=[]):
            return True
    return False


@query
def _grown(module: ModuleIndex) -> frozenset[str]:
    """Names of variables and attributes of a module to which items are added."""
    calls = (call.func for name in _ADDS for call in module.calls_by_name.get(name, ()))
    targets = (one.target for one in module.syntax.of(ast.AugAssign))
    held = [*(func.value for func in calls if isinstance(func, ast.Attribute)), *targets]
    return frozenset(last_name(one) for one in held)


def is_grown(module: ModuleIndex, held: ast.expr) -> bool:
    """Return whether a module adds items to a list of that name."""
    return last_name(held) in _grown(module)


def written_items(made: NodeRef) -> int:
    """Return the number of items of ``["a.wav", "b.wav"]``; 0 if it is another expression, or there may be more."""
    node, parent = made.node, made.module.syntax.parents.get(made.node)
    if not isinstance(node, ast.List) or any(isinstance(item, ast.Starred) for item in node.elts):
        return 0
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    return 0 if any(is_grown(made.module, target) for target in targets) else len(node.elts)


def appended(project: Project, held: NodeRef) -> tuple[int, ...]:
    """Return the most items that the function around a list fills it with; none if that is unknown."""
    module, text, total = held.module, ast.unparse(held.node), 0
    function = module.function(held.node)
    if not isinstance(held.node, ast.Name):
        return ()
    fresh = any(one.kind is BindingKind.ASSIGN for one in module.scope(held.node).lookup(held.node.id))
    for name in _ADDS:
        for call in module.calls_by_name.get(name, ()):
            if not isinstance(call.func, ast.Attribute) or ast.unparse(call.func.value) != text:
                continue
            if module.function(call) is not function:
                continue
            around = [up for up in module.syntax.ancestors(call) if isinstance(up, LOOPS)]
            count = rounds(around[0], text) if len(around) == 1 and name == "append" else None
            most = _most(project, module, count, text, fresh) if count is not None else 0
            if not most:
                return ()
            total += most
    return (total,) if total else ()


def rounds(loop: ast.AST, held: str) -> ast.expr | None:
    """The number of rounds of ``for _ in range(n)`` or ``while len(rows) < n``."""
    match loop:
        case ast.For(iter=ast.Call(func=ast.Name(id="range" | "trange"), args=[count])):
            return count
        case ast.While(
            test=ast.Compare(left=ast.Call(func=ast.Name(id="len"), args=[filled]), ops=[ast.Lt()], comparators=[count])
        ) if ast.unparse(filled) == held:
            return count
    return None


def _most(project: Project, module: ModuleIndex, count: ast.expr, held: str, fresh: bool) -> int:
    """The most items that a loop of so many rounds leaves in a list. What the list held before is known where it is
    ``fresh`` or where the loop adds what is missing."""
    origins = project.fact(Resolver).points_to(module, count)
    missing = [_whole(one, held) for one in origins]
    if missing and all(one is not None for one in missing):
        return max((_bound(project, one) for one in missing if one is not None), default=0)
    return _bound(project, NodeRef(module, count)) if fresh else 0


def _whole(count: NodeRef, held: str) -> NodeRef | None:
    """``n`` of ``n - len(rows)``"""
    match count.node:
        case ast.BinOp(left=whole, op=ast.Sub(), right=ast.Call(func=ast.Name(id="len"), args=[filled])):
            return NodeRef(count.module, whole) if ast.unparse(filled) == held else None
    return None


def _bound(project: Project, ref: NodeRef) -> int:
    """The largest value of a number, also of one that counts the rounds of a loop; 0 if it is unknown."""
    found: list[object] = []
    for origin in project.fact(Resolver).points_to(ref.module, ref.node):
        if (last := _last(origin)) is not None:
            origin = last
        known = project.fact(Constants).of(origin.module, origin.node, origin.path)
        if not known.complete:
            return 0
        found += known.constants
    whole = [value for value in found if isinstance(value, int)]
    return max(whole, default=0) if len(whole) == len(found) else 0


def _last(origin: NodeRef) -> NodeRef | None:
    """Return what a loop counts to: ``last`` of ``for n in range(0, last, 2)``."""
    if not isinstance(origin.node, ast.Name):
        return None
    for one in origin.module.scope(origin.node).lookup(origin.node.id):
        if one.kind is BindingKind.LOOP and isinstance(one.node, ast.For):
            match one.node.iter:
                case ast.Call(func=ast.Name(id="range"), args=[last] | [_, last] | [_, last, _]):
                    return NodeRef(origin.module, last)
    return None
