"""Loaders that fastai makes for a learner, of which a program that only predicts draws no batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.programs.gpu_programs import MAX_USERS, GpuPrograms
from gpulint.query import query
from gpulint.training import batch_makers
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

_PREDICTS = regex.compile(rb"\.predict\(")
"""A learner predicts one item with a loader of its own, in the same process."""
_DRAWS = regex.compile(
    rb"\.(?:fit\w*|fine_tune|lr_find|validate|get_preds|tta|TTA|one_batch|show_\w+|grab_batch|train_dl|valid_dl"
    rb"|train|valid|from_learner)\b|\bfor\b[^\n]{0,100}\bin\s+(?:\w+\.)*(?:dls|data|loaders?|dl)\b"
)
"""What draws batches of the loaders: a training, an evaluation, a loop, a picture of a few."""


def drawn_batch_makers(project: Project, module: ModuleIndex) -> Iterator[ast.Call]:
    """Yield the calls of a module that make loaders of both splits, unless its programs draw no batch of them."""
    if not _only_predicts(project, module):
        yield from batch_makers.calls(project.models, module)


@query
def _only_predicts(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module or what imports it lets a learner predict items, and nothing there draws batches."""
    users = list(islice(project.fact(GpuPrograms).users(module.path), MAX_USERS + 1))
    files = [module.path, *users]
    return (
        len(users) <= MAX_USERS
        and any(project.finds(path, _PREDICTS) for path in files)
        and not any(project.finds(path, _DRAWS) for path in files)
    )
