"""Whether what a program adds up on its device can be in double precision."""

from __future__ import annotations

from gpulint.programs.device_options import free_device
from gpulint.project import Project
from gpulint.workspace.module_index import ModuleIndex

_DEVICES = ("mps", "npu", "mlu", "xpu", "directml")
"""Devices without double precision."""
_LIBRARIES = ("accelerate", "lightning")
"""Libraries that choose such a device by themselves where there is one."""


def has_doubles(project: Project, module: ModuleIndex) -> bool:
    """Return whether nothing in the tree names a device without double precision, or may."""
    return not in_single(project, module)


def in_single(project: Project, module: ModuleIndex) -> str:
    """Return why what is kept on the device of a module is in single precision (``in single precision, as `mps` has no
    other``); empty if it need not be."""
    named = _named(project, _DEVICES)
    if named:
        return f"in single precision, as the tree names `{named}`, which has no other"
    if flag := free_device(project, module):
        return f"in single precision, as `{flag}` may name a device that has no other (`mps`)"
    if named := next((one for one in _LIBRARIES if _is_imported(project, one)), ""):
        return f"in single precision, as {named.capitalize()} may choose a device that has no other (`mps`)"
    return ""


def _named(project: Project, words: tuple[str, ...]) -> str:
    return next((word for word in words if project.word_index.mentioning(word.encode())), "")


def _is_imported(project: Project, package: str) -> bool:
    """Return whether a module imports a package; the word may also be of something else (``"lightning.qubit"``)."""
    modules = map(project.module_at, project.word_index.mentioning(package.encode()))
    return any(module is not None and package in module.packages for module in modules)
