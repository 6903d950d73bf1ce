"""Places that only some rounds of a training loop may get to, for they are in a branch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.semantic.path_conditions import conditions, is_failure, parts_of
from gpulint.training.cuda_tests import excludes_cuda
from gpulint.training.element_tests import selects_elements
from gpulint.training.guards import is_of_processes
from gpulint.values.constants import Constants

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loop_contexts import LoopContext
    from gpulint.workspace.module_index import ModuleIndex


def is_in_branch(project: Project, module: ModuleIndex, node: ast.AST, context: LoopContext) -> bool:
    """Return whether a test decides if a round of a loop gets to a place, in its function or in those that the loop
    calls on the way to it; not one of the processes, of a GPU or of a failure, nor one whose outcome the code tells or
    that elements of an inner loop pass."""
    places = [(module, node), *((site.module, site.node) for site in context.calls)]
    return any(_is_in_branch(project, where, at, context.loop.node) for where, at in places)


def _is_in_branch(project: Project, module: ModuleIndex, node: ast.AST, loop: ast.AST) -> bool:
    around = {*module.syntax.ancestors(node)}
    return any(
        _is_open(project, module, part, wanted)
        for test, holds in conditions(module, node, loop)
        if module.syntax.parents.get(test) in around and not is_failure(module, test, node)
        for part, wanted in parts_of(test, holds)
        if not selects_elements(module, part, wanted, loop)
    )


def _is_open(project: Project, module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    if is_of_processes(module, test) or excludes_cuda(module, test, not holds) or (holds and _trains(test)):
        return False
    known = project.fact(Constants).of(module, test)
    return not (known.complete and known.values and all(bool(one.value) is holds for one in known.values))


def _trains(test: ast.expr) -> bool:
    """``if self.training``, which holds in a step"""
    return isinstance(test, ast.Attribute) and test.attr == "training"
