"""Timers that are objects: the parts of a step between two of their methods, or under ``with timer:``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.values.clocks import CLOCKS
from gpulint.workspace.module_index import FUNCTIONS, LoopNode, ModuleIndex, NodeRef, last_name
from gpulint_fixers.waits.logs.log_intervals import logged_seldom

_ENDS = {
    "start": frozenset({"stop", "end", "finish", "pause", "elapsed", "toc"}),
    "begin": frozenset({"end", "stop", "finish"}),
    "tic": frozenset({"toc"}),
    "tick": frozenset({"tock"}),
    "resume": frozenset({"pause", "stop"}),
}
"""Methods with which a timer starts, and those with which it reads the time since."""
_WAITS = frozenset({"synchronize"})


def timed_by_objects(project: Project, module: ModuleIndex, loop: LoopNode) -> list[tuple[int, int, str]]:
    """Return the lines in which timers of a loop start and end, and their names: ``timer.start()``, ``timer.end()``,
    ``with timer:``. None that wait for the GPU themselves, or that only every N steps get to."""
    started, ended = list[tuple[str, str, int]](), list[tuple[str, str, int]]()
    found = list[tuple[int, int, str]]()
    for part in walk(loop):
        match part:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if not logged_seldom(project, module, part):
                if name in _ENDS and _is_timer(project, module, part, name):
                    started.append((ast.unparse(owner), name, part.lineno))
                elif any(name in ends for ends in _ENDS.values()) and _is_timer(project, module, part, name):
                    ended.append((ast.unparse(owner), name, part.lineno))
            case ast.With(items=items) if any(_times_block(project, module, item.context_expr) for item in items):
                last = part.end_lineno or part.lineno
                found.append((part.lineno, last + 1, ast.unparse(items[0].context_expr)))
    for timer, name, began in started:
        lines = [line for other, end, line in ended if other == timer and end in _ENDS[name] and line > began]
        found += [(began, min(lines), f"`{timer}`")] if lines else []
    return found


def _is_timer(project: Project, module: ModuleIndex, call: ast.Call, name: str) -> bool:
    """Return whether the method that a call may reach reads a clock, and does not wait for the GPU. Of an object that
    comes from elsewhere, the classes that the module imports tell."""
    called = [one for one in project.fact(Resolver).callees(module, call) if isinstance(one.node, FUNCTIONS)]
    return bool(methods := called or list(_methods(project, module, name))) and all(map(_reads_clock, methods))


def _times_block(project: Project, module: ModuleIndex, manager: ast.expr) -> bool:
    """Return whether a block under ``with`` is timed: by an object of a class of the tree whose ``__exit__`` reads a
    clock."""
    resolver = project.fact(Resolver)
    classes = [
        one
        for ref in resolver.points_to(module, manager)
        if isinstance(ref.node, ast.Call) and not ref.path
        for one in resolver.classes_of(ref.module, ref.node)
    ]
    exits = [resolver.method(*one, name) for one in classes for name in ("__enter__", "__exit__")]
    return bool(exits) and all(one is not None and _reads_clock(one) for one in exits)


@query
def _methods(project: Project, module: ModuleIndex, name: str) -> tuple[NodeRef, ...]:
    """Return the methods of a name that read a clock, in the classes of a module and of those that it imports."""
    paths = (module.path, *sorted(project.imported(module.path)))
    found = (_methods_in(one, name) for one in map(project.module_at, paths) if one is not None)
    return tuple(method for methods in found for method in methods)


@query
def _methods_in(module: ModuleIndex, name: str) -> tuple[NodeRef, ...]:
    if CLOCKS.isdisjoint(module.calls_by_name):
        return ()
    methods = (part for owner in module.classes for part in owner.body if isinstance(part, FUNCTIONS))
    refs = (NodeRef(module, part) for part in methods if part.name == name)
    return tuple(ref for ref in refs if not CLOCKS.isdisjoint(_called(ref.node)))


def _reads_clock(method: NodeRef) -> bool:
    called = set(_called(method.node))
    return not called.isdisjoint(CLOCKS) and called.isdisjoint(_WAITS)


def _called(function: ast.AST) -> Iterator[str]:
    return (last_name(part.func) for part in walk(function) if isinstance(part, ast.Call))
