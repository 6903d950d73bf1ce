"""Decorators that call what they decorate only every N times."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.values.periodic_tests import is_periodic
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, FunctionNode, ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project


def is_called_seldom(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a decorator of the tree calls the function only where a test holds every N times."""
    for decorator in function.decorator_list:
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        for one in project.fact(Resolver).points_to(module, named):
            calls = list(_calls(one.module, one.node)) if isinstance(one.node, FUNCTIONS) else []
            if calls and all(
                any(is_periodic(project, one.module, test, holds) for test, holds in conditions(one.module, call))
                for call in calls
            ):
                return True
    return False


def _calls(module: ModuleIndex, decorator: FunctionNode) -> Iterator[ast.Call]:
    """The calls that inner functions of a decorator make of what an outer one was given."""
    for call in walk(decorator):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            bindings = module.scope(call).lookup(call.func.id)
            home = module.function(call)
            if home is not decorator and any(
                one.kind is BindingKind.PARAMETER and one.scope.node is not home for one in bindings
            ):
                yield call
