"""Questions that rules of plugins may ask about a project. These names are stable; what they are made of is not.

All functions take the project first and answer with what is known. What is unknown gives an empty or incomplete answer,
never a guess. Answers are cached, so ask as often as it reads well. What a rule is made of (``Rule``, ``Finding``,
``Fix``) is in :mod:`gpulint.rule`, :mod:`gpulint.finding` and :mod:`gpulint.fix`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint.workspace.module_index import BindingKind, FunctionNode, ModuleIndex, NodeRef

if TYPE_CHECKING:  # imported when they are used, so that a plugin pays for what it asks
    from gpulint.documents import Document as Document
    from gpulint.documents.python import PythonModule as PythonModule
    from gpulint.documents.shell.script import Directive as Directive
    from gpulint.documents.shell.script import Script as Script
    from gpulint.documents.tasks import Count as Count
    from gpulint.documents.tasks import Resources as Resources
    from gpulint.documents.tasks import Task as Task
    from gpulint.launch.job import DeclaredCount as DeclaredCount
    from gpulint.launch.job import Job as Job
    from gpulint.launch.job import Launched as Launched
    from gpulint.placement.device_transfers import Transfer as Transfer
    from gpulint.placement.sync_points import SyncKind as SyncKind
    from gpulint.placement.sync_points import SyncPoint as SyncPoint
    from gpulint.project import Project as Project
    from gpulint.training.loader_calls import Loader as Loader
    from gpulint.training.loop_contexts import LoopContext as LoopContext
    from gpulint.training.loop_roles import Role as Role
    from gpulint.values.arguments import Argument as Argument
    from gpulint.values.arguments import ArgumentState as ArgumentState
    from gpulint.values.constants import ConstantSet as ConstantSet
    from gpulint.values.constants import Value as Value

CLASSES = {
    "Argument": "gpulint.values.arguments",
    "ArgumentState": "gpulint.values.arguments",
    "ConstantSet": "gpulint.values.constants",
    "Count": "gpulint.documents.tasks",
    "DeclaredCount": "gpulint.launch.job",
    "Directive": "gpulint.documents.shell.script",
    "Document": "gpulint.documents.base",
    "Job": "gpulint.launch.job",
    "Launched": "gpulint.launch.job",
    "Loader": "gpulint.training.loader_calls",
    "LoopContext": "gpulint.training.loop_contexts",
    "Project": "gpulint.project",
    "PythonModule": "gpulint.documents.python",
    "Resources": "gpulint.documents.tasks",
    "Role": "gpulint.training.loop_roles",
    "Script": "gpulint.documents.shell.script",
    "SyncKind": "gpulint.placement.sync_points",
    "SyncPoint": "gpulint.placement.sync_points",
    "Task": "gpulint.documents.tasks",
    "Transfer": "gpulint.placement.device_transfers",
    "Value": "gpulint.values.constants",
}
"""Classes of the answers, and the modules that they are in at present."""
__all__ = [
    "Argument",
    "ArgumentState",
    "ConstantSet",
    "Count",
    "DeclaredCount",
    "Directive",
    "Document",
    "FunctionNode",
    "Job",
    "Launched",
    "Loader",
    "LoopContext",
    "ModuleIndex",
    "NodeRef",
    "Project",
    "PythonModule",
    "Resources",
    "Role",
    "Script",
    "SyncKind",
    "SyncPoint",
    "Task",
    "Transfer",
    "Value",
    "argument",
    "callees",
    "callers",
    "calls_to",
    "constants",
    "definitions",
    "enclosing_loops",
    "imported_name",
    "jobs",
    "launches",
    "loader_argument",
    "loaders",
    "module",
    "qualified_names",
    "runs_on_gpu",
    "sync_points",
    "transfers",
    "transfers_of",
]


def __getattr__(name: str) -> Any:
    if name not in CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(CLASSES[name]), name)


def module(project: Project, document: Document) -> ModuleIndex | None:
    """Scopes, calls, loops, functions and classes of a document's Python; None if it has none or cannot be parsed.

    ``module.syntax`` has the ``ast`` tree, parents of nodes and their places (``module.syntax.span(node)``).
    """
    return project.module(document)


def qualified_names(project: Project, module: ModuleIndex, node: ast.expr) -> frozenset[str]:
    """Return what an expression may be called where it comes from (``torch.utils.data.DataLoader``), through imports,
    aliases and re-exports."""
    from gpulint.semantic.points_to import Resolver

    return project.fact(Resolver).names(module, node)


def imported_name(project: Project, module: ModuleIndex, name: str) -> str | None:
    """Return how the top of a module may write a qualified name (``t.float32`` after ``import torch as t``).

    A fixer that writes ``torch.float32`` breaks a file that has no ``torch``. None if nothing there imports the name,
    or if its import may be rebound.
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        target = ".".join(parts[:length])
        for local, bindings in module.top.bindings.items():
            if [binding.target for binding in bindings if binding.kind is BindingKind.IMPORT] == [target] * len(
                bindings
            ):
                return ".".join([local, *parts[length:]])
    return None


def calls_to(project: Project, module: ModuleIndex, names: Iterable[str]) -> list[ast.Call]:
    """Calls of a module to one of some qualified names, under whatever alias, in source order."""
    from gpulint.semantic.points_to import Resolver

    return project.fact(Resolver).calls_to(module, frozenset(names))


def definitions(project: Project, module: ModuleIndex, node: ast.AST) -> tuple[NodeRef, ...]:
    """The nodes that an expression may stand for: constants, calls, functions and classes of any file, parameters."""
    from gpulint.semantic.points_to import Resolver

    return project.fact(Resolver).points_to(module, node)


def callees(project: Project, module: ModuleIndex, call: ast.Call) -> list[NodeRef]:
    """Functions of the tree that a call may reach."""
    from gpulint.semantic.points_to import Resolver

    return project.fact(Resolver).callees(module, call)


def callers(project: Project, module: ModuleIndex, function: FunctionNode) -> tuple[NodeRef, ...]:
    """Calls anywhere in the tree that may reach a function."""
    from gpulint.semantic.points_to import Resolver

    return project.fact(Resolver).call_sites(module, function)


def constants(project: Project, module: ModuleIndex, node: ast.AST) -> ConstantSet:
    """The constants that an expression may be, each with the place that sets it: in code, a configuration file, an
    option's default or a launcher's command line. ``complete`` is False if it may be something else, too."""
    from gpulint.values.constants import Constants

    return project.fact(Constants).of(module, node)


def argument(project: Project, module: ModuleIndex, call: ast.Call, name: str, position: int | None = None) -> Argument:
    """Return what a call passes for a parameter: by keyword, at a 0-based position, through ``**`` or ``partial``."""
    from gpulint.values.arguments import Arguments

    return project.fact(Arguments).of(module, call, name, position)


def enclosing_loops(project: Project, module: ModuleIndex, node: ast.AST) -> tuple[LoopContext, ...]:
    """The training, epoch or evaluation loops that a node runs in, also through calls and the hooks of frameworks.

    ``loop.role`` is a :class:`Role`; ``loop.calls`` lead from the loop to the node.
    """
    from gpulint.training.loop_contexts import LoopContexts

    return project.fact(LoopContexts).enclosing_loops(module, node)


def loaders(project: Project, module: ModuleIndex) -> list[Loader]:
    """Calls of a module that make data loaders."""
    from gpulint.training.loader_flow import LoaderFlow

    return project.fact(LoaderFlow).in_module(module)


def loader_argument(project: Project, loader: Loader, name: str) -> Argument:
    """Return what a loader gets for a parameter, by keyword or by its place in the signature of its class."""
    from gpulint.training import loader_calls

    return loader_calls.loader_argument(project, loader, name)


def transfers(project: Project, module: ModuleIndex) -> tuple[Transfer, ...]:
    """Calls of a module that move something to a device (``.to(...)``, ``.cuda()``)."""
    from gpulint.placement.device_transfers import DeviceTransfers

    return project.fact(DeviceTransfers).transfers(module)


def transfers_of(project: Project, loader: Loader) -> list[Transfer]:
    """Calls anywhere in the tree that move a loader's batches to what may be a GPU."""
    from gpulint.placement.device_transfers import DeviceTransfers

    return list(project.fact(DeviceTransfers).transfers_of(loader))


def sync_points(project: Project, module: ModuleIndex) -> list[SyncPoint]:
    """Places of a module where the host waits for the GPU: ``.item()``, ``float(loss)``, ``synchronize()``."""
    from gpulint.placement.synchronization import SyncPoints

    return list(project.fact(SyncPoints).in_module(module))


def runs_on_gpu(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module is part of a program that computes on a GPU."""
    from gpulint.programs.gpu_programs import GpuPrograms

    return project.fact(GpuPrograms).runs_on_gpu(module)


def jobs(project: Project) -> tuple[Job, ...]:
    """The jobs of all scripts and job specs of the tree, with their resources and launches."""
    from gpulint.launch.job_index import JobIndex

    return project.fact(JobIndex).jobs()


def launches(project: Project, program: Path) -> tuple[Launched, ...]:
    """Return how jobs start a program, or the programs that import a module for its options."""
    from gpulint.launch.job_index import JobIndex

    return project.fact(JobIndex).launches_of(program)
