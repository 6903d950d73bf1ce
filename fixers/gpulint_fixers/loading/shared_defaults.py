"""Numbers of workers that are the default of a helper: another one is in force for all that call it without one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.finding import Place
from gpulint.fix import Declined, Edit
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.training.loader_flow import LoaderFlow
from gpulint.values.constants import Constants
from gpulint.values.parameter_defaults import default_at
from gpulint.workload.main_guards import may_be_spawned, starts_without_guard
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, NodeRef
from gpulint.workspace.word_index import word_of


def told_of_callers(project: Project, passed: NodeRef | None) -> str | Declined:
    """Return what a fix has to say of a default that it would change, or why it may not: a program that leaves it in
    force makes its loader without a main guard; empty where it changes no such default."""
    for home, function, name in _defaults(project, passed):
        for site in (*project.fact(Resolver).call_sites(home, function), *_in_tests(project, home, function)):
            if not isinstance(site.node, ast.Call) or argument_of(function, site.node, name) is not None:
                continue
            for start in starts_without_guard(project, site):
                where = f"{start.module.path.relative_to(project.root).as_posix()}:{_line(start)}"
                what = f"`{name}` is a default of `{_called(home, function)}`, which {where} calls without"
                if may_be_spawned(project, start):
                    return Declined(
                        f"{what} `if __name__ == '__main__'`, which workers need where processes are spawned, as on "
                        f"Windows or macOS: pass `{name}` where the training calls it"
                    )
                return f"; {what} a main guard, which it needs where processes are spawned"
    return ""


def sharing(project: Project, loader: Loader, edits: tuple[Edit, ...]) -> list[Loader]:
    """Return the other loaders whose numbers of workers come from where edits write another one."""
    places = {(edit.path, edit.span) for edit in edits}
    users = {path for edit in edits for path in (edit.path, *project.fact(GpuPrograms).users(edit.path))}
    modules = [project.module_at(path) for path in sorted({loader.module.path, *users})]
    return [
        one
        for module in modules
        if module is not None
        for one in project.fact(LoaderFlow).in_module(module)
        if one.node is not loader.node and any((at.path, at.span) in places for at in _places(project, one))
    ]


def _places(project: Project, loader: Loader) -> Iterator[Place]:
    """Yield where the number of workers of a loader is written."""
    for ref in loader_argument(project, loader, "num_workers").refs:
        if isinstance(ref.node, ast.expr):
            for value in project.fact(Constants).of(ref.module, ref.node).values:
                yield value.place


def _defaults(project: Project, passed: NodeRef | None) -> list[tuple[ModuleIndex, FunctionNode, str]]:
    """Return the parameters whose defaults a number of workers may be."""
    if passed is None or not isinstance(passed.node, ast.expr):
        return []
    places = dict[Place, None].fromkeys(v.place for v in project.fact(Constants).of(passed.module, passed.node).values)
    found = [(home, default_at(home, place)) for place in places if (home := project.module_at(place.path)) is not None]
    return [(home, *default) for home, default in found if default is not None]


def _in_tests(project: Project, home: ModuleIndex, function: FunctionNode) -> Iterator[NodeRef]:
    """Yield the calls of a function in tests, of which some are programs that try a part of the tree out."""
    name = _called(home, function)
    for path in project.word_index.mentioning(word_of(name)):
        where = project.module_at(path) if project.is_test(path) and not project.is_test(home.path) else None
        for call in where.calls_by_name.get(name, ()) if where is not None else ():
            assert where is not None
            if any(one.node is function for one in project.fact(Resolver).callees(where, call)):
                yield NodeRef(where, call)


def _called(home: ModuleIndex, function: FunctionNode) -> str:
    owner = home.syntax.parents.get(function)
    return owner.name if isinstance(owner, ast.ClassDef) and function.name == "__init__" else function.name


def _line(start: NodeRef) -> int:
    return getattr(start.node, "lineno", 1)
