"""Collective operations (all-reduce, gather, barrier ...) and whether a program exchanges gradients between
processes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

REDUCTIONS = frozenset({"all_reduce", "allreduce", "reduce", "allreduce_", "all_reduce_coalesced", "reduce_scatter"})
GATHERS = frozenset(
    {
        "all_gather",
        "allgather",
        "gather",
        "gather_for_metrics",
        "all_gather_object",
        "all_gather_into_tensor",
        "gather_object",
    }
)
BARRIERS = frozenset({"barrier", "monitored_barrier", "wait_for_everyone", "join"})
_MODULES = ("torch.distributed.", "horovod.", "hvd.", "accelerate.", "lightning.", "xm.", "torch_xla.")
_OBJECTS = frozenset({"accelerator", "fabric", "hvd", "dist", "distributed"})
WRAPPERS = frozenset({"DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP", "fully_shard"})
"""What makes a model exchange its gradients."""
_WRAPPERS = frozenset(name.encode() for name in WRAPPERS)


def collective(module: ModuleIndex, call: ast.Call, project: Project) -> str:
    """Name of the collective that a call makes, else ''."""
    name = last_name(call.func)
    if name not in REDUCTIONS | GATHERS | BARRIERS or not isinstance(call.func, ast.Attribute | ast.Name):
        return ""
    names = project.fact(Resolver).call_names(module, call)
    if any(found.startswith(_MODULES) for found in names):
        return name
    if isinstance(call.func, ast.Attribute) and last_name(call.func.value) in _OBJECTS and not names:
        return name
    return ""


def wraps_itself(module: ModuleIndex, project: Project) -> bool:
    """Does the module name DDP or FSDP?"""
    return bool(project.word_index.of(module.path) & _WRAPPERS)


def wraps_in_ddp(module: ModuleIndex, project: Project) -> bool:
    """Does the module, or one that imports it or that it imports, wrap a model in DDP or FSDP?"""
    if wraps_itself(module, project):
        return True
    for binding in module.imports:
        target = project.absolute(binding.target, module.path)
        path = project.module_path(target, module.path) or project.module_path(target.rpartition(".")[0], module.path)
        if path is not None and project.word_index.of(path) & _WRAPPERS:
            return True
    names = [definition.name for definition in (*module.functions[:40], *module.classes[:40])]
    return any(project.word_index.of(user.path) & _WRAPPERS for user in project.users_of(module, names))
