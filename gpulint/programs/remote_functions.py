"""Functions that a client ships to workers with GPUs, which install packages for them first: trainers of Kubeflow's
SDK, components of its pipelines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.finding import Place
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_PACKAGES = "packages_to_install"
_RESOURCES = frozenset({"resources_per_node", "resources_per_worker"})
_ASKS = ("set_gpu_limit", "set_accelerator_limit", "set_accelerator_type")
"""Methods by which a task of a pipeline asks for GPUs."""
_TPU = regex.compile(r"(?<![A-Za-z])TPU", re.IGNORECASE)
_SETS = regex.compile(r"(set|add|with)_|after$|ignore_")
"""Methods of tasks that return the task."""


@dataclass(frozen=True, slots=True)
class RemoteFunction:
    """The argument that lists packages, what it lists, and where GPUs are asked for."""

    argument: ast.keyword
    packages: tuple[str, ...]
    evidence: Place


def packages(project: Project, module: ModuleIndex) -> Iterator[RemoteFunction]:
    """Packages that workers with GPUs install at start, as the calls and decorators of a module list them."""
    if _PACKAGES not in module.syntax.source.text:
        return
    components = dict(_components(project, module))
    for call in module.calls:
        listed = next((keyword for keyword in call.keywords if keyword.arg == _PACKAGES), None)
        if listed is None:
            continue
        names = _names(project, module, listed.value)
        asked = components.get(call) or _asked(project, module, call)
        if names and asked is not None:
            yield RemoteFunction(
                listed, names, Place(module.path, module.syntax.span(asked), "the GPUs are asked for here")
            )


def _names(project: Project, module: ModuleIndex, listed: ast.expr) -> tuple[str, ...]:
    """The packages of a list that is written out."""
    for ref in project.fact(Resolver).points_to(module, listed):
        if isinstance(ref.node, ast.List | ast.Tuple):
            return tuple(
                name.value for name in ref.node.elts if isinstance(name, ast.Constant) and isinstance(name.value, str)
            )
    return ()


def _asked(project: Project, module: ModuleIndex, trainer: ast.Call) -> ast.expr | None:
    """The number of GPUs that ``CustomTrainer(resources_per_node={"gpu": 4})`` asks for."""
    for keyword in trainer.keywords:
        for ref in project.fact(Resolver).points_to(module, keyword.value) if keyword.arg in _RESOURCES else ():
            if not isinstance(ref.node, ast.Dict) or ref.module is not module:
                continue
            for key, value in zip(ref.node.keys, ref.node.values, strict=True):
                is_gpu = isinstance(key, ast.Constant) and "gpu" in str(key.value).lower()
                if is_gpu and not project.fact(Constants).of(module, value).every(lambda number: number in (0, "0")):
                    return value
    return None


def _components(project: Project, module: ModuleIndex) -> Iterator[tuple[ast.Call, ast.expr]]:
    """(decorator of a component, where the pipeline asks GPUs for a task of it)."""
    for name in _ASKS:
        for call in module.calls_by_name.get(name, []):
            given = call.args[0] if call.args else None
            if given is None or _TPU.search(ast.unparse(call)):
                continue
            if project.fact(Constants).of(module, given).every(lambda number: number in (0, "0")):
                continue
            for made in _tasks(module, call):
                for component in project.fact(Resolver).callees(module, made):
                    decorators = component.node.decorator_list if isinstance(component.node, FUNCTIONS) else ()
                    for decorator in decorators:
                        if isinstance(decorator, ast.Call) and last_name(decorator) == "component":
                            yield decorator, call


def _tasks(module: ModuleIndex, asked: ast.Call) -> Iterator[ast.Call]:
    """Calls of the module that make the task of ``train(...).set_cpu_limit("4").set_gpu_limit(1)``."""
    todo: list[ast.expr] = [asked]
    names = set[str]()
    for task in todo:
        while isinstance(task, ast.Call) and isinstance(task.func, ast.Attribute) and _SETS.match(task.func.attr):
            task = task.func.value
        if isinstance(task, ast.Call):
            yield task
        elif isinstance(task, ast.Name) and task.id not in names:
            names.add(task.id)
            todo += [binding.value for binding in module.scope(task).lookup(task.id) if binding.value is not None]
