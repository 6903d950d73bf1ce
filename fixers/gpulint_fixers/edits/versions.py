"""Versions of libraries that code is written for, as far as it shows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint import regex
from gpulint.project import Project
from gpulint.query import query
from gpulint.workspace.module_index import ModuleIndex, last_name

_BEFORE_0_4 = regex.compile(r"\bvolatile\s*=\s*True|\.cuda\([^()]*\basync\s*=")
"""What raises an error, or has no effect, since tensors and variables are one."""

_FIRST_FASTAI = regex.compile(r"^databunch$|DataBunch$")

_SINCE_0_4 = regex.compile(r"\btorch\.(no_grad|device|inference_mode)\b|\bnon_blocking\s*=|\.item\(\)")
"""What only newer releases have: some such code is left beside it."""


@query
def predates_device_argument(module: ModuleIndex) -> bool:
    """Return whether a module is for PyTorch before 0.4, which has no ``torch.no_grad``, ``device=`` or
    ``non_blocking=``."""
    text = module.syntax.source.text
    old = "torch" in module.packages and (regex.occurs(_BEFORE_0_4, text) or any(True for _ in _first_elements(module)))
    return old and not regex.occurs(_SINCE_0_4, text)


def _first_elements(module: ModuleIndex) -> Iterator[ast.expr]:
    """Yield what ``loss.data[0]`` and ``loss.data.cpu()[0]`` read, as a single number was read before 0.5."""
    parts: Iterator[ast.Subscript] = module.syntax.of(ast.Subscript)
    for part in parts:
        match part:
            case ast.Subscript(
                value=ast.Attribute(value=tensor, attr="data")
                | ast.Call(func=ast.Attribute(value=ast.Attribute(value=tensor, attr="data"), attr="cpu"), args=[]),
                slice=ast.Constant(value=0),
            ):
                yield tensor


@query
def has_newer_neighbours(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module of the same folder is for PyTorch 0.4 or newer."""
    newer = (path for written in (b"torch.no_grad", b".item()") for path in project.python_files_with(written))
    others = (project.module_at(path) for path in newer if path.parent == module.path.parent)
    return any(other is not None and "torch" in other.packages for other in others)


@query
def predates_lasting_workers(module: ModuleIndex) -> bool:
    """Return whether a module is for PyTorch before 0.5, which has no ``persistent_workers`` either."""
    return predates_device_argument(module) or any("loss" in last_name(one) for one in _first_elements(module))


def is_of_first_fastai(call: ast.Call) -> bool:
    """Return whether a call makes batches as fastai did before its second version, whose loaders of PyTorch get no
    other options than its own (fastai1.fast.ai/basic_data.html)."""
    return any(_FIRST_FASTAI.search(name) for name in ast.unparse(call.func).split("."))
