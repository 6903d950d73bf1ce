"""Options that a library makes of the fields of a class which parses the command line itself (``class Args(Tap)``)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.launch.job_index import JobIndex
from gpulint.semantic.points_to import Resolver
from gpulint.values.option_calls import word_as
from gpulint.workspace.module_index import NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.finding import Place
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_BASES = frozenset({"tap.Tap", "tap.tap.Tap"})
"""Classes whose instances fill their own fields: ``Args().parse_args()``."""


def fields(project: Project, module: ModuleIndex, base: ast.expr, name: str) -> Iterator[NodeRef]:
    """Yield the defaults of the fields that declare an option of a parsed object."""
    resolver = project.fact(Resolver)
    for made in resolver.points_to(module, base):
        match made.node:
            case ast.Call(func=ast.Attribute(value=parser, attr="parse_args")):
                for home, owner in resolver.classes_of(made.module, parser):
                    if resolver.base_names(home, owner).isdisjoint(_BASES):
                        continue
                    for where, bound in resolver.class_attribute(home, owner, name):
                        if bound.value is not None:
                            yield NodeRef(where, bound.value)


def passed(project: Project, field: NodeRef, name: str) -> list[list[tuple[object, Place]]]:
    """Return what each start of the program passes for a field, None for what is unknown: ``--debug``, ``--debug
    True``."""
    declared = field.module.syntax.parents.get(field.node)
    kind = last_name(declared.annotation) if isinstance(declared, ast.AnnAssign) else ""
    starts = project.fact(JobIndex).launches_of(field.module.path)
    given = [start.option((f"--{name}", f"--{name.replace('_', '-')}")) for start in starts]
    return [[(None if text is None else word_as(kind, text), place) for text, place in of_start] for of_start in given]
