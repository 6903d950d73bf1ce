"""Files of jobs that start a program with options which never get to the place of a finding (``--method sts`` where it
is reached by ``if args.method == "simcse"``)."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.assessment.subject import node_at
from gpulint.launch.job_index import JobIndex
from gpulint.query import query
from gpulint.rule import Kind
from gpulint.semantic.callers import callers, is_on_each_way
from gpulint.semantic.declared_options import option_of
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.values.constants import Constants
from gpulint.values.option_calls import flags, typed
from gpulint.workspace.module_index import NodeRef

if TYPE_CHECKING:
    from gpulint.finding import Finding
    from gpulint.launch.job import Launched
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_CALLS = 3
"""Most calls between the program and the place."""
_SETTERS = ("set_defaults", "setattr")
"""What sets options without their names."""


def launchers_without(project: Project, finding: Finding) -> tuple[Path, ...]:
    """Return the files of jobs whose commands all choose other branches of a program than that of a finding."""
    if project.kind(finding.path) is not Kind.PYTHON or not project.fact(JobIndex).jobs():
        return ()
    module = project.module_at(finding.path)
    node = node_at(module, finding.span) if module is not None else None
    return _launchers_without(project, module, node) if module is not None and node is not None else ()


@query
def _launchers_without(project: Project, module: ModuleIndex, node: ast.AST) -> tuple[Path, ...]:
    place, index = NodeRef(module, node), project.fact(JobIndex)
    ways = list(callers(project, place, _CALLS))
    if not any(_asks(at.ref) for at in ways):
        return ()
    programs = {at.ref.module.path for at in ways if at.function is None}
    launches = defaultdict[Path, list["Launched"]](list)
    for program in sorted(programs):
        for launched in index.launches_of(program):
            launches[launched.job.document.path].append(launched)
    others = {job.document.path for job in index.jobs() if not programs.issuperset(job.programs)}
    return tuple(
        path
        for path, started in launches.items()
        if path not in others and all(_chooses_others(project, place, one) for one in started)
    )


def _asks(ref: NodeRef) -> bool:
    """Return whether conditions of a place compare an attribute with a text."""
    tests = (part for test, holds in conditions(ref.module, ref.node) for part, _ in parts_of(test, holds))
    return any(isinstance(one, ast.Compare) and isinstance(one.left, ast.Attribute) for one in tests)


def _chooses_others(project: Project, place: NodeRef, launched: Launched) -> bool:
    """Return whether what a command passes, or leaves at its default, is against a condition on each way to a place."""

    def excludes(module: ModuleIndex, node: ast.AST) -> bool:
        parts = (part for test, holds in conditions(module, node) for part in parts_of(test, holds))
        return any(_fails(project, module, test, launched, holds=holds) for test, holds in parts)

    return is_on_each_way(project, place, excludes, _CALLS)


def _fails(project: Project, module: ModuleIndex, test: ast.expr, launched: Launched, *, holds: bool) -> bool:
    """``args.method == "simcse"`` with a command that passes ``--method sts``"""
    match test:
        case ast.Compare(
            left=ast.Attribute(value=ast.Name() as base, attr=name),
            ops=[ast.Eq() | ast.NotEq() as operator],
            comparators=[ast.Constant(value=str(wanted))],
        ):
            found = {_passed(option, launched) for option in _declared(project, module, base, name)}
            value = found.pop() if len(found) == 1 else None
            return value is not None and (value == wanted) is not (isinstance(operator, ast.Eq) is holds)
    return False


def _declared(project: Project, module: ModuleIndex, base: ast.Name, name: str) -> list[ast.Call]:
    """Return the calls that declare an option which nothing sets otherwise."""
    declared = project.fact(Constants).options.declarations(module, base, name)
    if any(_may_set(one, name) for one in {module, *(option.module for option in declared)}):
        return []
    return [option.node for option in declared if isinstance(option.node, ast.Call)]


def _may_set(module: ModuleIndex, name: str) -> bool:
    """Return whether a module sets attributes of a name, or by names that no code holds."""
    return any(map(module.calls_by_name.get, _SETTERS)) or any(
        isinstance(part.ctx, ast.Store) and part.attr == name for part in module.syntax.of(ast.Attribute)
    )


def _passed(option: ast.Call, launched: Launched) -> str | None:
    """Return the text that an option has in a run; None if it is unknown, or no text."""
    given = launched.option(flags(option))
    if given:
        value = typed(option, text) if (text := given[-1][0]) is not None else None
    else:
        value = option_of(option).literal("default")
    return value if isinstance(value, str) else None
