"""Loaders that a program makes without ``if __name__ == "__main__"``, or with code beside it: where processes are
spawned, each of its workers would run that again, and fail."""

from __future__ import annotations

import ast
import builtins
import re
from typing import TYPE_CHECKING, NamedTuple

from gpulint import regex
from gpulint.launch.job_index import JobIndex
from gpulint.libraries.names import matches
from gpulint.placement.batch_flow import BatchFlow
from gpulint.query import query
from gpulint.semantic.callers import callers
from gpulint.semantic.operating_systems import may_run_on_macos
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_flow import LoaderFlow
from gpulint.workload.desktop_files import may_be_set_up_on_desktop
from gpulint.workspace.module_index import NodeRef
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpulint.project import Project
    from gpulint.semantic.callers import CallingPlace
    from gpulint.workspace.module_index import ModuleIndex

MAX_CALLERS = 4
"""Calls through which the program that makes a loader is looked for."""
_MAIN = "__main__"
_PYTHON = (".py", ".ipynb")
_HOMES = regex.compile(r"""['"]([A-Z]:(\\{1,2}|/)\w|/Users/\w)|\bos\.name\s*==\s*['"]nt['"]""")
"""Paths of Windows and macOS."""
_COMPILED = re.compile(rb"[A-Za-z]:\\[^\0\n]{1,200}\.py|/Users/\w[^\0\n]{1,200}\.py")
MAX_COMPILED = 4
"""Most files of byte code that are read in a folder."""


class Route(NamedTuple):
    """How programs reach a place."""

    starts: list[NodeRef]
    """The calls outside of all functions, or the place itself if it is there."""
    modules: list[ModuleIndex]
    """Those of all calls that lead to the place."""

    @property
    def is_unguarded(self) -> bool:
        """Whether programs reach the place, and none of them through ``if __name__ == "__main__"``. A spawned worker
        runs no notebook again."""
        programs = [start for start in self.starts if start.module.path.suffix != ".ipynb"]
        return bool(programs) and not any(map(is_in_main, programs))


def route_to(project: Project, place: NodeRef) -> Route:
    """Return from where a place is reached, through a few calls: a method from which a framework takes a loader from
    where the program makes the object."""
    found = list(callers(project, place, MAX_CALLERS))
    for made in [made for at in found for made in _objects_of(project, at)]:
        found += callers(project, made, MAX_CALLERS)
    return Route([at.ref for at in found if at.function is None], list(dict.fromkeys(at.ref.module for at in found)))


def _objects_of(project: Project, at: CallingPlace) -> Iterator[NodeRef]:
    """Yield the calls that make objects from which a framework takes a loader, in the method that a place is in."""
    owner, module = at.ref.module.class_of(at.ref.node) if at.function is not None else None, at.ref.module
    if owner is None or at.function not in owner.body:
        return
    resolver, name = project.fact(Resolver), getattr(at.function, "name", "")
    rows = [row for row in project.models.rows("hook") if name in row.loaders]
    if not any(matches(row.bases, resolver.base_names(module, owner)) for row in rows):
        return
    for path in project.word_index.mentioning(word_of(owner.name)):
        where = project.module_at(path)
        for call in where.calls_by_name.get(owner.name, ()) if where is not None else ():
            if where is not None and any(one is owner for _, one in resolver.classes_of(where, call)):
                yield NodeRef(where, call)


def would_run_again(project: Project, place: NodeRef) -> bool:
    """Return whether a place is reached without a main guard in a program that may run on macOS, whose lines end as on
    Windows, that was compiled there, whose documentation says how to set it up there, or whose tree names folders of
    Windows or macOS. Jobs run on Linux."""
    route = route_to(project, place)
    is_program = place.module.path.suffix != ".ipynb"
    return route.is_unguarded and is_program and _may_run_elsewhere(project, route)


def starts_without_guard(project: Project, place: NodeRef) -> list[NodeRef]:
    """Return the calls outside of all functions that lead to a place without a main guard, in programs."""
    starts = route_to(project, place).starts
    return [one for one in starts if not is_in_main(one) and one.module.path.suffix != ".ipynb"]


def may_be_spawned(project: Project, start: NodeRef) -> bool:
    """Return whether a program that makes its loader outside of all functions may run on Windows or macOS."""
    return _may_run_elsewhere(project, Route([start], [start.module]))


def _may_run_elsewhere(project: Project, route: Route) -> bool:
    if any(is_started_by_job(project, start.module.path) for start in route.starts):
        return False
    if any(may_run_on_macos(module) or module.syntax.source.line_break == "\r\n" for module in route.modules):
        return True
    if any(may_be_set_up_on_desktop(project, start.module.path) for start in route.starts):
        return True
    if any(_is_compiled_elsewhere(project, start.module.path.parent / "__pycache__") for start in route.starts):
        return True
    return _is_from_another_system(project)


@query
def _is_from_another_system(project: Project) -> bool:
    """Return whether a program of the tree names a folder of Windows or macOS."""
    return any(project.matches(path, _HOMES) for path in project.python_files)


@query
def _is_compiled_elsewhere(project: Project, cache: Path) -> bool:
    """Return whether byte code that the tree keeps was compiled from files of Windows or macOS."""
    compiled = [cache / name for name in sorted(project.entries(cache)) if name.endswith(".pyc")]
    return any(_COMPILED.search(project.data(path)) for path in compiled[:MAX_COMPILED])


def is_started_by_job(project: Project, path: Path) -> bool:
    """Return whether a job or a script of a shell starts a program, and not only another program in Python."""
    launches = project.fact(JobIndex).launches_of(path)
    return any(found.job.document.path.suffix not in _PYTHON for found in launches)


def outside_guard(project: Project, place: NodeRef) -> str:
    """Return what a program that makes a loader behind its main guard runs outside of it, and a spawned worker would
    run again: what reads a name that only the guarded code binds, or draws the batches of a loader."""
    modules = dict.fromkeys(one.module for one in route_to(project, place).starts if is_in_main(one))
    return next((said for module in modules if (said := _outside(project, module))), "")


def fails_outside_guard(project: Project, place: NodeRef) -> str:
    """Return what a program runs outside of its main guard, if it may run where processes are spawned."""
    said = outside_guard(project, place)
    return said if said and _may_run_elsewhere(project, route_to(project, place)) else ""


@query
def _outside(project: Project, module: ModuleIndex) -> str:
    if module.path.suffix == ".ipynb":
        return ""
    for name, bindings in module.scope(module.syntax.tree).bindings.items():
        if hasattr(builtins, name) or not all(is_in_main(NodeRef(module, one.node)) for one in bindings):
            continue
        first = min(getattr(one.node, "lineno", 0) for one in bindings)
        for use in module.uses.get(name, ()):
            if isinstance(use.ctx, ast.Load) and use.lineno > first and _always_runs(module, use):
                return f"line {use.lineno} reads `{name}`, which only the code behind `if __name__ == '__main__'` binds"
    for loader in project.fact(LoaderFlow).in_module(module):
        for read in project.fact(BatchFlow).of_loader(module, loader.node):
            if read.where.module is module and _always_runs(module, read.where.node):
                return f"line {getattr(read.where.node, 'lineno', 0)} draws batches outside of the main guard"
    return ""


def _always_runs(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether importing a module runs a place, without any condition."""
    if module.scope(node).parent is not None:
        return False
    return not any(isinstance(up, ast.If | ast.IfExp | ast.Try) for up in module.syntax.ancestors(node))


def is_in_main(place: NodeRef) -> bool:
    """Return whether a place is behind ``if __name__ == "__main__"``."""
    ancestors = place.module.syntax.ancestors(place.node)
    return any(isinstance(up, ast.If) and _MAIN in ast.unparse(up.test) for up in ancestors)
