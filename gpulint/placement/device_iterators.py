"""What puts batches on a device by itself: iterators of torchtext, tf.data, DALI, JAX and GraphLearn, prefetchers, and
collate functions that are bound to one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.placement.devices import Devices
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_LIBRARIES = frozenset({"tensorflow", "tf", "jax", "nvidia", "torchtext", "tensorflow_datasets"})
_BY_DEFAULT = frozenset({"timm.data.create_loader", "timm.data.loader.create_loader"})
_HANDS_OUT = ("__iter__", "__next__", "next", "preload")


def is_device_iterator(project: Project, module: ModuleIndex, source: ast.expr) -> bool:
    """Return whether a loop runs over such an iterator."""
    for ref in project.fact(Resolver).points_to(module, source):
        if isinstance(ref.node, ast.Call):
            if any(keyword.arg in ("device", "device_id", "to_device") for keyword in ref.node.keywords):
                return True
            names = project.fact(Resolver).call_names(ref.module, ref.node)
            if any(name.split(".", 1)[0] in _LIBRARIES for name in names):
                return True
            made = project.fact(Resolver).points_to(ref.module, ref.node.func)
            if any(isinstance(one.node, ast.ClassDef) and (_uses_dali(one.module) or _moves(one.node)) for one in made):
                return True
    return is_asked_to_move(project, module, source)


def is_asked_to_move(project: Project, module: ModuleIndex, source: ast.expr) -> bool:
    """Return whether the function that makes a loader is asked to put a prefetcher around it
    (``create_loader(data, use_prefetcher=True)``); that of timm does so by default."""
    calls = _calls_that_make(module, source)
    return bool(calls) and all(_makes_prefetcher(project, module, call) for call in calls)


def _calls_that_make(module: ModuleIndex, source: ast.expr) -> list[ast.Call]:
    """Return the calls that a variable is set to; none if it may be something else."""
    if isinstance(source, ast.Call):
        return [source]
    if not isinstance(source, ast.Name):
        return []
    bound = reaching(module, module.scope(source).lookup(source.id), source)
    values = [one.value if one.kind is BindingKind.ASSIGN and not one.path else None for one in bound]
    calls = [value for value in values if isinstance(value, ast.Call)]
    return calls if len(calls) == len(values) else []


def _makes_prefetcher(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    asked = [keyword.value for keyword in call.keywords if keyword.arg is not None and "prefetcher" in keyword.arg]
    is_on = bool(asked) and all(isinstance(value, ast.Constant) and value.value is True for value in asked)
    resolver = project.fact(Resolver)
    if (is_on or not asked) and _BY_DEFAULT & resolver.call_names(module, call):
        return True
    return is_on and any(
        isinstance(part, ast.Call)
        and any(
            isinstance(one.node, ast.ClassDef) and _moves(one.node)
            for one in resolver.points_to(made.module, part.func)
        )
        for made in resolver.points_to(module, call.func)
        if isinstance(made.node, FUNCTIONS)
        for part in walk(made.node)
    )


def binds_to_gpu(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """``partial(collate, device=device)`` of a function of the tree that moves its batches there."""
    if not call.args or "functools.partial" not in project.fact(Resolver).call_names(module, call):
        return False
    given = {k.arg for k in call.keywords if k.arg is not None and project.fact(Devices).may_be_gpu(module, k.value)}
    functions = project.fact(Resolver).points_to(module, call.args[0]) if given else ()
    return any(
        isinstance(part, ast.Call) and last_name(part.func) == "to" and {last_name(one) for one in part.args} & given
        for function in functions
        for part in walk(function.node)
    )


def _moves(owner: ast.ClassDef) -> bool:
    """Return whether a class that is iterated over moves its items ahead of time (a prefetcher)."""
    methods = [part for part in owner.body if isinstance(part, FUNCTIONS) and part.name in _HANDS_OUT]
    calls = (part for method in methods for part in walk(method) if isinstance(part, ast.Call))
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("cuda", "to")
        and any(keyword.arg == "non_blocking" for keyword in call.keywords)
        for call in calls
    )


def _uses_dali(module: ModuleIndex) -> bool:
    """Return whether the module of a program's own iterator imports DALI, whose pipelines end on the GPU."""
    return any(binding.target.startswith("nvidia.dali") for binding in module.imports)
