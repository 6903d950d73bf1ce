"""Calls that give a tensor of the GPU by their names, and calls that never do."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.placement.host_results import copies_to_host, first_operand
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

_TELLS = regex.compile(
    r"^_?(format|print|log|str|show|display|describe)_|^to_str|(2|to_?|_)(str|string|text|message|msg)$"
)
"""Functions that make text of what they are given."""
MAKES = regex.compile(
    r"(^|_)(model|net|network|criterion|critic|discriminator|generator|encoder|decoder|module|loss|loss_?fn|loss_?func)$"
    r"|loss|^net[DG]$|^forward$|cross_entropy|clip_grad_norm_?$",
    re.IGNORECASE,
)
"""Models, losses and criteria, by their names."""
_ENDS = frozenset(
    "item tolist numpy cpu get_scale shape size dim numel nelement ndim device dtype type stride get_device "
    "is_contiguous data_ptr keys".split()
)


def gives_no_tensor(
    project: Project,
    module: ModuleIndex,
    call: ast.Call,
    name: str,
    is_host: Callable[[ModuleIndex, ast.expr], bool],
) -> bool:
    """Return whether what a call with a name gives is no tensor, or one of the host: a loss of PyTorch of what was
    copied there is computed there."""
    if name in _ENDS or copies_to_host(call) or _TELLS.search(name):
        return True
    if isinstance(call.func, ast.Name) and name in ("float", "int", "str", "len"):
        return True
    operand = first_operand(project, module, call) if MAKES.search(name) else None
    return operand is not None and is_host(module, operand)
