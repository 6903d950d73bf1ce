"""Modules that nothing is seen to use."""

from __future__ import annotations

import ast
import os
from itertools import islice
from typing import TYPE_CHECKING

from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

MAX_USERS = 6
"""Most importing modules that are looked at."""


def is_unused(subject: Subject) -> bool:
    """Return whether a place is in a function of a module that no other file names and that does nothing by itself."""
    module, node = subject.module, subject.node
    if module is None or node is None or subject.is_notebook or subject.jobs or module.function(node) is None:
        return False
    hooks = (context.loop for context in subject.contexts if isinstance(context.loop.node, FUNCTIONS))
    if any(hook.module is module for hook in hooks):
        return False
    return _is_unused(subject.project, module)


@query
def _is_unused(project: Project, module: ModuleIndex) -> bool:
    """Return whether only modules that nothing uses use a module, if any."""
    users = [project.module_at(user) for user in islice(project.fact(GpuPrograms).users(module.path), MAX_USERS + 1)]
    chain = [module, *(user for user in users if user is not None)]
    if len(chain) <= len(users) or len(users) > MAX_USERS or not all(map(_does_nothing, chain)):
        return False
    ends = [one for one in chain if not any(True for _ in project.fact(GpuPrograms).users(one.path))]
    return bool(ends) and not any(
        project.is_in_other_files(os.fsencode(one.path.stem)) or _may_be_imported(project, one.path) for one in ends
    )


def _may_be_imported(project: Project, path: Path) -> bool:
    """Return whether a module imports something of the name of a file from where the tree has no such file, as after
    ``sys.path.insert(0, folder)``."""
    stem = path.stem
    others = project.word_index.importing(frozenset({word_of(stem)}))
    return any(other != path and not any(found.stem == stem for found in project.imported(other)) for other in others)


@query
def _does_nothing(module: ModuleIndex) -> bool:
    """Return whether a module only defines."""
    if module.path.name == "__init__.py" or "__main__" in module.syntax.source.text:
        return False
    starts = (ast.For, ast.While, ast.With, ast.If, ast.Try)
    return not any(isinstance(part, starts) or _calls(part) for part in module.syntax.tree.body)


def _calls(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and not isinstance(part.value, ast.Constant)
