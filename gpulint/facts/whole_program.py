"""All that takes part in the programs a module belongs to: its users, what they and it import, and their launchers.

Advice that rests on something being absent ("no autocast anywhere") asks here, so that one mention anywhere, even in a
comment, is enough for silence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.facts.gpuuse import MAX_MODULES
from gpulint.facts.scopes import ModuleScopes

if TYPE_CHECKING:
    from gpulint.project import Project

LOWER_PRECISION = re.compile(
    r"autocast|(?<![a-z])amp(?![a-z])|apex|fp16|bf16|fp8|float16|(?<![a-z])half(?![a-z])|half_?precision|HalfTensor"
    r"|tf32|matmul_precision|mixed|[-\"'.]precision\b|precision\s*=\s*[\"'\d]|grad_?scal|loss_?scal|native_?scaler"
    r"|quanti[sz]|load_in_[48]bit|bitsandbytes|transformer_engine",
    re.IGNORECASE,
)
"""Words of arithmetic in fewer bits than float32, or of a choice of it."""
DOUBLE_PRECISION = re.compile(r"float64|\.double\(|torch\.double|DoubleTensor", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WholeProgram:
    """``own``: the module and what it imports. ``modules``: also its users and what they import."""

    own: tuple[ModuleScopes, ...]
    modules: tuple[ModuleScopes, ...]
    launchers: tuple[str, ...]
    """Texts of the documents that start them, and of the configuration files that these name."""

    def mentions(self, pattern: re.Pattern[str]) -> bool:
        """Is there a match in any module's or launcher's text?"""
        return any(pattern.search(scopes.module.source.text) for scopes in self.modules) or any(
            pattern.search(text) for text in self.launchers
        )

    def imports(self, *packages: str) -> bool:
        """Does a module import one of these packages (dotted names), or something inside of it?"""
        return any(
            binding.target == package or binding.target.startswith(f"{package}.")
            for scopes in self.modules
            for binding in scopes.imports
            for package in packages
        )


def whole_program(project: Project, scopes: ModuleScopes) -> WholeProgram | None:
    """The programs of ``scopes``; None if they are too large to be followed to the end."""
    own = project.gpu_use.of(scopes.path).modules
    modules: dict[Path, ModuleScopes] = {scopes.path: scopes}
    for start in (scopes, *project.gpu_programs.users(scopes)):
        found = project.gpu_use.of(start.path).modules
        if len(found) > MAX_MODULES:
            return None
        modules.update((module.path, module) for module in found)
    launchers: dict[Path, str] = {}
    for path in modules:
        for launched in project.launched(path):
            launchers[launched.start.document.path] = launched.start.document.source.text
            launchers[launched.job.document.path] = launched.job.document.source.text
            if (config := launched.start.config) is not None:
                launchers[config] = project.data(config).decode("utf-8", "replace")
    return WholeProgram(own, tuple(modules.values()), tuple(launchers.values()))
