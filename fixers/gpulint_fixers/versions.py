"""Versions of libraries that code is written for, as far as it shows."""

from __future__ import annotations

from gpulint import regex
from gpulint.query import query
from gpulint.workspace.module_index import ModuleIndex

_BEFORE_0_4 = regex.compile(r"\bvolatile\s*=\s*True|\.data(\.cpu\(\))?\[0\]|\.cuda\([^()]*\basync\s*=")
"""What raises an error, or has no effect, since tensors and variables are one."""


@query
def predates_device_argument(module: ModuleIndex) -> bool:
    """Return whether a module is for PyTorch before 0.4, which has no ``torch.no_grad``, ``device=`` or
    ``non_blocking=``."""
    return "torch" in module.packages and regex.occurs(_BEFORE_0_4, module.syntax.source.text)
