"""Places in training loops that the commands of a program leave out: behind ``if not args.detect:``, where each passes
``--detect``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.launch.job_index import JobIndex
from gpulint.launch.option_parser import passed_options
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.training.loop_roles import Role
from gpulint.values.constants import Constants

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.launch.job import Launched
    from gpulint.project import Project
    from gpulint.source import Span
    from gpulint.training.loop_contexts import LoopContext
    from gpulint.workspace.module_index import ModuleIndex

_Option = tuple[str, str | None]
"""The name of an option and the text that a command passes for it."""


def is_left_out(subject: Subject) -> bool:
    """Return whether each command of the programs that train sets an option so that no step gets to a place."""
    module, node = subject.module, subject.node
    steps = [context for context in subject.contexts if context.role is Role.STEP]
    if module is None or node is None or not steps:
        return False
    return all(_is_behind_switch(subject.project, module, node, context) for context in steps)


def _is_behind_switch(project: Project, module: ModuleIndex, node: ast.AST, context: LoopContext) -> bool:
    """Return whether each command of the program that a loop is in fails a test on the way from the loop to a place."""
    starts = project.fact(JobIndex).launches_of(context.loop.module.path)
    places = [(module, node), *((site.module, site.node) for site in context.calls)] if starts else []
    for where, place in places:
        for test, holds in conditions(where, place, context.loop.node):
            for part, wanted in parts_of(test, holds):
                against = _set_otherwise(project, where, part, wanted)
                if against and all(not against.isdisjoint(_passed(start)) for start in starts):
                    return True
    return False


def _set_otherwise(project: Project, module: ModuleIndex, switch: ast.expr, wanted: bool) -> frozenset[_Option]:
    """Return the options by which commands set a switch to what fails a test."""
    if not isinstance(switch, ast.Name | ast.Attribute):
        return frozenset()
    index, found = project.fact(JobIndex), set[_Option]()
    for one in project.fact(Constants).of(module, switch).values:
        if one.source == "launcher" and isinstance(one.value, bool) and one.value is not wanted:
            starts = index.launches_in(one.place.path)
            found.update(
                option for start in starts for option, span in _passed(start).items() if span == one.place.span
            )
    return frozenset(found)


def _passed(start: Launched) -> dict[_Option, Span]:
    """Return the options of a command, each with its value and where that stands."""
    options = passed_options(start.start.launch.args)
    return {(name.replace("_", "-"), one.value): one.number for name, one in options.items()}
