"""Hyperparameters that the trials of a Determined experiment are given by its configuration."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.launch.job_index import JobIndex
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

KEY = "hyperparameters"
"""Where a configuration lists them."""


def holds_hyperparameters(ref: NodeRef) -> bool:
    """``get_cluster_info().trial.hparams``, ``context.get_hparams()``, and what ``context.get_hparam("lr")`` calls."""
    if "determined" not in ref.module.packages:
        return False
    match ref.node:
        case ast.Attribute(value=owner, attr="hparams"):
            return last_name(owner) == "trial"
        case ast.Attribute(attr="get_hparam") | ast.Call(func=ast.Attribute(attr="get_hparams")):
            return True
    return False


def experiments(project: Project, module: ModuleIndex) -> Iterator[Path]:
    """Configurations of experiments beside a program, and those that start it."""
    started = {launched.job.document.path for launched in project.fact(JobIndex).launches_of(module.path)}
    found = (job.document.path for job in project.fact(JobIndex).jobs() if job.task.system == "determined")
    yield from dict.fromkeys(path for path in found if path in started or path.parent == module.path.parent)
