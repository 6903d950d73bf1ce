"""Options of a program that may name any device (``--device mps``)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.values.option_calls import declaring_calls, dests, flags
from gpulint.workspace.module_index import ModuleIndex, last_name

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project

MAX_MODULES = 40
"""Most modules around one in which options are looked for."""
_DEVICE = regex.compile(r"(^|_)device$", re.IGNORECASE)
_NAMES = regex.compile(r"\b(cuda|cpu|gpus?)\b", re.IGNORECASE)
"""Devices that the help of an option may name, as those that there are."""
_TEXTS = frozenset({"str", ""})


@query
def free_device(project: Project, module: ModuleIndex) -> str:
    """Return the option (``--device``) that a program with a module hands to PyTorch as a device, whatever it says;
    empty if there is none."""
    if "cuda" in module.calls_by_name:
        return ""  # which runs on devices of CUDA only
    around = list(_around(project, module))
    free = {name: flag for home in around for name, flag in _free(home).items()}
    if not free:
        return ""
    used = (name for home in around for name in _used_as_device(home) if name in free)
    return next((free[name] for name in used), "")


def _around(project: Project, module: ModuleIndex) -> Iterator[ModuleIndex]:
    """The module, those that import it, and what these import."""
    users = list(islice(project.fact(GpuPrograms).users(module.path), MAX_MODULES))
    paths: dict[Path, None] = dict.fromkeys([module.path, *users])
    for path in [module.path, *users]:
        paths.update(dict.fromkeys(sorted(project.imported(path))))
    found = map(project.module_at, islice(paths, MAX_MODULES))
    return (one for one in found if one is not None and not project.is_test(one.path))


@query
def _free(module: ModuleIndex) -> dict[str, str]:
    """Return the options of a module that may name any device, by the names of their values."""
    declared = [call for calls in declaring_calls(module).values() for call in calls]
    declared += [call for call in module.calls_by_name.get("option", ()) if flags(call)]
    return {
        name: next(iter(flags(call)), f"--{name}")
        for call in declared
        for name in dests(call)
        if _DEVICE.search(name) and _is_free(call)
    }


def _is_free(option: ast.Call) -> bool:
    """Return whether an option takes any text, and neither its help nor its default names the devices that there are
    (``"cuda" if torch.cuda.is_available() else "cpu"``)."""
    kind, said, default = (keyword_value(option, name) for name in ("type", "help", "default"))
    if isinstance(default, ast.IfExp):
        return False
    if any(keyword_value(option, name) is not None for name in ("choices", "action", "is_flag", "nargs")):
        return False
    if kind is not None and last_name(kind) not in _TEXTS:
        return False
    return not (isinstance(said, ast.Constant) and isinstance(said.value, str) and _NAMES.search(said.value))


@query
def _used_as_device(module: ModuleIndex) -> tuple[str, ...]:
    """Return the names of what a module hands to ``torch.device`` and, of an object, to ``.to``."""
    made = [call.args[0] for call in module.calls_by_name.get("device", ()) if call.args]
    moved = [call.args[0] for call in module.calls_by_name.get("to", ()) if call.args]
    of_objects = (one for one in moved if isinstance(one, ast.Attribute) and not _is_own(one.value))
    return tuple(dict.fromkeys(filter(None, map(_name, (*made, *of_objects)))))


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _name(node: ast.expr) -> str:
    match node:
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
        case ast.Name() | ast.Attribute():
            return last_name(node)
    return ""
