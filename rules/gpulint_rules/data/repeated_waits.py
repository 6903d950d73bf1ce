"""Waits that an inner loop repeats although one would do: a test of each parameter, a read of each element."""

from __future__ import annotations

import ast

from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.workspace.module_index import ModuleIndex
from gpulint_rules.data.wait_counts import inner_loops, is_over_parameters


def is_repeated(project: Project, module: ModuleIndex, sync: SyncPoint, loop: ast.AST) -> bool:
    """Return whether each round of ``loop`` waits there many times for what it could have at once. Even if a step needs
    the values, it does not need these waits."""
    return tests_parameters(module, sync, loop) or bool(
        sync.kind is SyncKind.READ and project.fact(SyncPoints).read_one_by_one(module, sync)
    )


def tests_parameters(module: ModuleIndex, sync: SyncPoint, loop: ast.AST) -> bool:
    """``for p in model.parameters(): if torch.isnan(p.grad).any()``"""
    return sync.kind is SyncKind.TEST and any(map(is_over_parameters, inner_loops(module, sync.node, loop)))
