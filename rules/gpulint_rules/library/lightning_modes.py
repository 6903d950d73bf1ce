"""Anomaly detection that Lightning's trainer switches off again: since release 1.5, it trains under
``set_detect_anomaly(detect_anomaly)``, an option of its own that is off by default."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_rules.library.cudnn_layers import MAX_PROGRAMS, programs_of

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project

_TRAINER = regex.compile(r"(pytorch_)?lightning\.(\w+\.)*Trainer")
_BASES = ("LightningModule", "LightningDataModule", "Callback")
_WORDS = regex.compile(r"\bTrainer\b|\bbackward\b")


def is_replaced(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether anomaly detection is on before programs train by Lightning's trainers alone, without their option:
    it is off while they train."""
    if last_name(call.func) not in ("set_detect_anomaly", "detect_anomaly") or not _is_outside(project, module, call):
        return False
    programs = programs_of(project, module, call)
    return 0 < len(programs) <= MAX_PROGRAMS and all(_trains_by_lightning(project, path) for path in programs)


def _is_outside(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether neither the call nor those of its function are in methods, which a trainer may call."""
    function = module.function(call)
    sites = project.fact(Resolver).call_sites(module, function) if function is not None else ()
    return module.class_of(call) is None and all(site.module.class_of(site.node) is None for site in sites)


@query
def _trains_by_lightning(project: Project, path: Path) -> bool:
    """Return whether a program makes trainers of Lightning, none with the option, and has no backward pass but in what
    they train."""
    modules = [*project.fact(MultiGpuUse).of(path).modules_where(lambda _, one: project.matches(one, _WORDS))]
    resolver, made = project.fact(Resolver), list[ast.Call]()
    for module in modules:
        if any(not _is_of_module(project, module, call) for call in module.calls_by_name.get("backward", ())):
            return False
        calls = module.calls_by_name.get("Trainer", ())
        made += (call for call in calls if any(map(_TRAINER.fullmatch, resolver.call_names(module, call))))
    return bool(made) and not any(_may_detect(project, call) for call in made)


def _is_of_module(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call is in a method of what a trainer runs."""
    owner = module.class_of(call)
    return owner is not None and any(name.endswith(_BASES) for name in project.fact(Resolver).base_names(module, owner))


def _may_detect(project: Project, trainer: ast.Call) -> bool:
    """Return whether a trainer may have the option: by a keyword, or by a file of settings."""
    given = next((one.value for one in trainer.keywords if one.arg == "detect_anomaly"), None)
    if given is not None:
        return not isinstance(given, ast.Constant) or given.value is not False
    opened = any(one.arg is None for one in trainer.keywords)
    return opened and project.is_in_other_files(b"detect_anomaly")
