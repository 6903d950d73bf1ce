"""Loaders that a program makes without ``if __name__ == "__main__"``: where processes are spawned, each of its workers
would run the whole program again, and fail."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.launch.job_index import JobIndex
from gpulint.query import query
from gpulint.semantic.operating_systems import may_run_on_macos
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import NodeRef

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.project import Project

MAX_CALLERS = 4
"""Calls through which the program that makes a loader is looked for."""
_MAIN = "__main__"
_HOMES = regex.compile(r"""['"]([A-Z]:(\\{1,2}|/)\w|/Users/\w)|\bos\.name\s*==\s*['"]nt['"]""")
"""Paths of Windows and macOS."""


def ways_from_programs(project: Project, place: NodeRef, calls: int = MAX_CALLERS) -> list[tuple[NodeRef, ...]]:
    """The calls by which a place is reached from outside of all functions, the last first."""
    return list(_ways(project, place, (), calls))


def is_unguarded(ways: list[tuple[NodeRef, ...]]) -> bool:
    """Return whether none of the ways to a place goes through ``if __name__ == "__main__"``."""
    return bool(ways) and not any(_is_in_main(way[-1]) for way in ways)


def would_run_again(project: Project, place: NodeRef) -> bool:
    """Return whether a place is reached without a main guard in a program that may run on macOS, whose lines end as on
    Windows, or whose tree names folders of Windows or macOS. Jobs run on Linux."""
    ways = ways_from_programs(project, place)
    if not is_unguarded(ways) or place.module.path.suffix == ".ipynb":
        return False
    if any(True for way in ways for _ in project.fact(JobIndex).launches_of(way[-1].module.path)):
        return False
    modules = {at.module for way in ways for at in way}
    if any(may_run_on_macos(module) or module.syntax.source.line_break == "\r\n" for module in modules):
        return True
    return _is_from_another_system(project)


@query
def _is_from_another_system(project: Project) -> bool:
    """Return whether a program of the tree names a folder of Windows or macOS."""
    return any(project.matches(path, _HOMES) for path in project.python_files)


def _ways(project: Project, place: NodeRef, way: tuple[NodeRef, ...], calls: int) -> Iterator[tuple[NodeRef, ...]]:
    way = (*way, place)
    function = place.module.function(place.node)
    if function is None:
        yield way
        return
    for site in project.fact(Resolver).call_sites(place.module, function) if calls else ():
        yield from _ways(project, site, way, calls - 1)


def _is_in_main(place: NodeRef) -> bool:
    ancestors = place.module.syntax.ancestors(place.node)
    return any(isinstance(up, ast.If) and _MAIN in ast.unparse(up.test) for up in ancestors)
