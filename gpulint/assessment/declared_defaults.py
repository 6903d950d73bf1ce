"""Branches that a program takes only with another value of an option than its default, which jobs may pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.launch.job_index import JobIndex
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.default_tests import decides_number
from gpulint.values.constants import Constants

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex, NodeRef


def is_beside_default(subject: Subject) -> bool:
    """Return whether a comparison of an option with a number leads to the place, which the default of the option
    decides otherwise as most commands do, of which few pass what is unknown (``--max-grad-norm "$NORM"``)."""
    module, node = subject.module, subject.node
    if module is None or node is None:
        return False
    return any(
        _fails(subject.project, module, part, wanted)
        for test, holds in conditions(module, node)
        for part, wanted in parts_of(test, holds)
    )


def _fails(project: Project, module: ModuleIndex, test: ast.expr, wanted: bool) -> bool:
    match test:
        case ast.Compare(left=ast.Name() | ast.Attribute() as left, ops=[_], comparators=[ast.Constant()]):
            known = project.fact(Constants).of(module, left)
            if known.complete or any(decides_number(test, value) is not (not wanted) for value in known.constants):
                return False
            values = [*_values(project, module, left)]
            return bool(values) and all(decides_number(test, value) is (not wanted) for value in values)
    return False


def _values(project: Project, module: ModuleIndex, node: ast.expr) -> Iterator[object]:
    """Yield the default of each option that a value may come from, and what commands pass for it; None for what is no
    option or has no default, and where most commands pass what is unknown."""
    options = project.fact(Constants).options
    for made in project.fact(Resolver).points_to(module, node):
        match made.node:
            case ast.Attribute(value=base, attr=name):
                declared = options.declarations(made.module, base, name)
            case _:
                declared = []
        if not declared:
            yield None
        for option in declared:
            default = keyword_value(option.node, "default") if isinstance(option.node, ast.Call) else None
            yield default.value if isinstance(default, ast.Constant) else None
            yield from _passed(project, option)


def _passed(project: Project, option: NodeRef) -> Iterator[object]:
    """Yield the numbers that commands pass for an option; None if no more of them do than pass something unknown."""
    assert isinstance(option.node, ast.Call)
    named = (part.value for part in option.node.args if isinstance(part, ast.Constant) and isinstance(part.value, str))
    flags = tuple(name for name in named if name.startswith("-"))
    starts = [start.option(flags) for start in project.fact(JobIndex).launches_of(option.module.path)]
    unknown = sum(any(text is None for text, _ in found) for found in starts)
    if not unknown or 2 * unknown >= len(starts):
        yield None
    for text in (text for found in starts for text, _ in found if text is not None):
        try:
            yield float(text)
        except ValueError:
            yield None
