"""Programs that switch gradients off as a whole, rather than around a forward pass."""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.programs.gpu_programs import MAX_USERS, GpuPrograms

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_SWITCHES = regex.compile(
    rb"^[ \t]*(?:\w+\.)*_?set_grad_enabled\(\s*(?:mode\s*=\s*)?False\s*\)"
    rb"|\b(?:no_grad|inference_mode)\(\)(?:\.__enter__\(|\(\s*\w)"
    rb"|\benter_context\(\s*(?:\w+\.)*(?:no_grad|inference_mode)\(",
    re.MULTILINE,
)
"""``torch.set_grad_enabled(False)`` as a statement, ``torch.no_grad().__enter__()``, ``torch.no_grad()(function)`` and
``stack.enter_context(torch.no_grad())``."""


def may_switch_gradients_off(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module, one that it imports or one that imports it switches gradients off until it switches them
    on again, so that they may be off in all that runs later."""
    users = islice(project.fact(GpuPrograms).users(module.path), MAX_USERS)
    return any(project.finds(path, _SWITCHES) for path in chain([module.path], project.imported(module.path), users))
