"""What trainers of frameworks are told about the hardware to train on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.query import stored
from gpulint.semantic.points_to import Resolver
from gpulint.values.arguments import Arguments
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project


_NO_GPUS = frozenset({"cpu", "mps", "tpu", "hpu", "npu"})
"""Accelerators that are no GPUs, or the one of a Mac, where workers are spawned and share its memory."""


@stored("trainers told to use the CPU")
def _trainers_in(project: Project, path: Path) -> tuple[bool, ...]:
    """Of a module, each kind of answer once."""
    module = project.module_at(path)
    return tuple(sorted(set(trainers_on_cpu(project, module)))) if module is not None else ()


@stored("all trainers use the CPU")
def all_on_cpu(project: Project) -> bool:
    """Return whether every Trainer or Fabric of the tree is told to use the CPU."""
    found = {on_cpu for path in project.training_files() for on_cpu in _trainers_in(project, path)}
    return found == {True}


def is_on_cpu(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the framework object behind a call, or made by it, was told to use the CPU, or a device that is no
    GPU of a job."""
    made = [NodeRef(module, call)]
    if isinstance(call.func, ast.Attribute):
        made += project.fact(Resolver).points_to(module, call.func.value)
    return any(_names_cpu(project, ref.module, ref.node) for ref in made if isinstance(ref.node, ast.Call))


def _names_cpu(project: Project, module: ModuleIndex, made: ast.Call) -> bool:
    for name in ("cpu", "accelerator", "device"):
        given = project.fact(Arguments).of(module, made, name)
        known = [project.fact(Constants).of(ref.module, ref.node) for ref in given.refs]
        if known and all(one.every(lambda value: value is True or value in _NO_GPUS) for one in known):
            return True
    return any(
        keyword.arg == "gpus" and isinstance(keyword.value, ast.Constant) and keyword.value.value == 0
        for keyword in made.keywords
    )


def trainers_on_cpu(project: Project, module: ModuleIndex) -> Iterator[bool]:
    """For each Trainer and Fabric that a module makes, whether it is told to use the CPU."""
    for name in ("Trainer", "Fabric"):
        yield from (is_on_cpu(project, module, call) for call in module.calls_by_name.get(name, []))


def trains_on_cpu(project: Project, modules: tuple[ModuleIndex, ...]) -> bool:
    """Return whether modules make Trainers or Fabrics, all of them for the CPU."""
    found = [on_cpu for module in modules for on_cpu in trainers_on_cpu(project, module)]
    return bool(found) and all(found)


@stored("intervals of the trainers' logs")
def _log_intervals(project: Project, path: Path) -> tuple[bool, ...]:
    """Return for each trainer of a module whether it logs every step; each kind of answer once."""
    module = project.module_at(path)
    calls = module.calls_by_name.get("Trainer", []) if module is not None else []
    return tuple(sorted({_logs_each_step(project, module, call) for call in calls})) if module is not None else ()


def _logs_each_step(project: Project, module: ModuleIndex, made: ast.Call) -> bool:
    given = project.fact(Arguments).of(module, made, "log_every_n_steps")
    known = [project.fact(Constants).of(ref.module, ref.node) for ref in given.refs]
    return bool(known) and all(one.every(lambda value: value == 1) for one in known)


@stored("all trainers log every step")
def all_log_each_step(project: Project) -> bool:
    """Return whether every Trainer of the tree writes its log in every step, for which it reads what is logged."""
    found = {each for path in project.training_files() for each in _log_intervals(project, path)}
    return found == {True}
