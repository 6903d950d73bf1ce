"""Programs without cuDNN that may need to be without it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from gpulint import regex
from gpulint.programs.multi_gpu_use import MultiGpuUse, Program
from gpulint.project import Project

_RECURRENT = regex.compile(r"\b(GRU|LSTM|RNN)(Cell)?\(")
_TWICE = regex.compile(r"create_graph|\bcaptum\b|\bshap\b")
"""Gradients of gradients, and libraries that take those of a model's inputs."""
_OF_INPUTS = regex.compile(r"\.requires_grad_\(|requires_grad\s*=\s*True|autograd\.grad\(|\.backward\(")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
_EVALUATES = regex.compile(r"\.eval\(\)")


def exceeds_cudnn(project: Project, path: Path) -> bool:
    """Return whether a program may take gradients through recurrent layers that cuDNN cannot: in evaluation mode, or of
    gradients."""
    program = project.fact(MultiGpuUse).of(path)
    if not program.mentions(_RECURRENT):
        return False
    return program.mentions(_TWICE) or _differentiates_evaluations(program)


def _differentiates_evaluations(program: Program) -> bool:
    """Return whether a function of a program, or a script, sets evaluation mode and takes gradients of inputs."""
    for module in program.modules:
        scopes = [*module.syntax.of(ast.FunctionDef), *module.syntax.tree.body]
        if not _EVALUATES.search(module.syntax.source.text):
            continue
        top = "\n".join(module.syntax.text(part) for part in scopes if not isinstance(part, _DEFINITIONS))
        texts = [*(module.syntax.text(part) for part in scopes if isinstance(part, ast.FunctionDef)), top]
        if any(
            (mode := _EVALUATES.search(text)) is not None
            and re.search(r"\.train\(", text) is None
            and _OF_INPUTS.search(text, mode.end()) is not None
            for text in texts
        ):
            return True
    return False
