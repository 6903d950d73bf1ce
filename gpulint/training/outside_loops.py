"""Functions of which names alone say that no loop is around their calls, so that no caller need be parsed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.call_graph import plain_callers, plain_function
from gpulint.training.generators import yields
from gpulint.workspace.module_index import FunctionNode, ModuleIndex
from gpulint.workspace.summaries import ELSEWHERE, HANDED, TOP
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_CALLERS = 2_000
"""Most functions whose callers are searched."""


def runs_in_no_loop(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether all that may call a function, going by names, does so outside of loops.

    False says nothing: only plain functions and constructors are followed.
    """
    if plain_function(module, function.name) is not function or yields(module, function):
        return False
    return _is_called_outside(project, module.path, function.name)


def files_with_loops(project: Project, module: ModuleIndex, function: FunctionNode) -> list[Path] | None:
    """Return the files that may call a function, going by names, within loops or in what loops call; None if unknown.

    Only plain functions are followed. None of their callers is parsed for that.
    """
    if plain_function(module, function.name) is not function or yields(module, function):
        return None
    files = plain_callers(project, module.path, function.name)
    return None if files is None else [path for path in files if _may_loop(project, path, function.name)]


@query
def _may_loop(project: Project, path: Path, name: str) -> bool:
    """Return whether a file calls what it knows by a name in a loop, or in what may be called in one."""
    callers = project.callers(path, name)
    if not callers.isdisjoint((ELSEWHERE, HANDED)):
        return True
    return not all(_is_called_outside(project, path, caller) for caller in sorted(callers - {TOP}))


@query
def _is_called_outside(project: Project, home: Path, name: str) -> bool:
    todo = [(home, name)]
    seen = {*todo}
    for where, called in todo:
        found = (
            _callers_of_class(project, where, called[:-1]) if called[-1] == "." else _callers(project, where, called)
        )
        if found is None or len(todo) > MAX_CALLERS:
            return False
        todo += sorted(found - seen)
        seen |= found
    return True


_Caller = tuple[Path, str]
"""A file, and a plain function or (with a point at its end) a class in it."""


def _callers(project: Project, home: Path, name: str, *, of_class: bool = False) -> set[_Caller] | None:
    """Return what calls a function or class of a module; None if that may be in a loop, or anything else."""
    files = plain_callers(project, home, name)
    if files is None:
        return None
    found = set[_Caller]()
    for path in files:
        callers = project.callers(path, name)
        if ELSEWHERE in callers or (HANDED in callers and not of_class):
            return None
        found |= {(path, caller) for caller in callers - {TOP, HANDED}}
    return found


def _callers_of_class(project: Project, home: Path, name: str) -> set[_Caller] | None:
    """Return what calls the constructor of a class, also for its subclasses."""
    subclasses = [(path, subclass.decode()) for path, subclass in project.word_index.subclasses(word_of(name))]
    for path in {home, *(path for path, _ in subclasses)}:
        if not project.callers(path, "__init__").isdisjoint((ELSEWHERE, HANDED)):
            return None
    found = _callers(project, home, name, of_class=True)
    return None if found is None else found | {(path, f"{subclass}.") for path, subclass in subclasses}
