"""Batches of loaders that are still in host memory: what ``next(it)`` returns, until something moves it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.host_results import framework_steps
from gpulint.placement.moved_batches import may_be_moved
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project


def is_batch_on_host(project: Project, module: ModuleIndex, node: ast.expr) -> bool | None:
    """Return whether a batch, or a part of one, is as a loader returned it; None if a value is no batch."""
    read = project.fact(BatchFlow).batch_of(module, node)
    if read is None:
        return None
    given = read.loaders or not framework_steps(module)
    return not read.prepared and bool(given) and not may_be_moved(project, module, node)
