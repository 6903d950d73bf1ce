"""Numbers that a program assigns to functions which workers call as they start: ``random.seed = 0``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workload.main_guards import route_to
from gpulint.workspace.module_index import dotted

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import ModuleIndex

_CALLED = frozenset({"random.seed", "numpy.random.seed", "torch.manual_seed", "torch.random.manual_seed"})
"""What a worker of a data loader calls before its first sample."""
_ASSIGNS = regex.compile(r"\.(manual_)?seed\s*=\s*\d")


class Replaced(NamedTuple):
    """A function that an assignment replaces by a number."""

    where: str
    """The file and line of the assignment."""
    function: str
    """The function as the program spells it."""
    call: str
    """What was meant."""


@query
def replaced_function(project: Project, loader: Loader) -> Replaced | None:
    """Return a function that the workers of a loader call, and which the program has replaced by a number."""
    starts = [start.module for start in route_to(project, loader.call).starts]
    for program in dict.fromkeys((*starts, loader.module)):
        paths = (program.path, *sorted(project.imported(program.path)))
        for path in (one for one in paths if project.matches(one, _ASSIGNS)):
            module = project.module_at(path)
            if module is not None and (found := _replaced_in(project, module)) is not None:
                return found
    return None


@query
def _replaced_in(project: Project, module: ModuleIndex) -> Replaced | None:
    for part in walk(module.syntax.tree):
        match part:
            case ast.Assign(
                targets=[ast.Attribute(attr="seed" | "manual_seed") as target], value=ast.Constant(value=int())
            ) if project.fact(Resolver).names(module, target) & _CALLED:
                where = f"{module.path.relative_to(project.root).as_posix()}:{part.lineno}"
                name = dotted(target)
                return Replaced(where, name, f"{name}({ast.unparse(part.value)})")
    return None
