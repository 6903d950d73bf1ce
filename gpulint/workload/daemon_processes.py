"""Loaders that are made in daemonic processes, such as those of a ``multiprocessing.Pool``.

Those may not have children: starting a worker there raises an error. Celery runs its tasks in such processes as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.semantic.callers import callers
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_POOL = frozenset({"apply", "apply_async", "map", "map_async", "imap", "imap_unordered", "starmap", "starmap_async"})
_STARTS = frozenset({"spawn", "start_processes"})
"""Functions of ``torch.multiprocessing`` that start a function in several processes."""
_TASKS = frozenset({"task", "shared_task"})
_MAX_CALLERS = 4
_MAX_USERS = 20
_WORDS = frozenset({b"Pool", b"Process", b"spawn", b"start_processes"})


def may_have_no_workers(project: Project, loader: Loader) -> bool:
    """Return whether the loader is made in a daemonic process."""
    around = callers(project, NodeRef(loader.module, loader.node), _MAX_CALLERS)
    functions = {at.function: at.ref.module for at in around if at.function is not None}
    return any(
        _handed_to_daemon(home, NodeRef(module, function), project)
        for function, module in functions.items()
        for home in (module, *_starters(project, module))
    )


def _starters(project: Project, module: ModuleIndex) -> Iterator[ModuleIndex]:
    """Yield the modules that import one and start processes."""
    for path in islice(project.fact(GpuPrograms).users(module.path), _MAX_USERS):
        found = project.module_at(path) if project.word_index.holds_one(path, _WORDS) else None
        if found is not None:
            yield found


def _handed_to_daemon(module: ModuleIndex, function: NodeRef, project: Project) -> bool:
    """Return whether a module passes a function to a pool's method, or to a process that it makes a daemon."""
    if module is function.module and _is_task(function):
        return True
    pools = "Pool" in module.calls_by_name
    for called in (*(_POOL if pools else ()), "Process", *_STARTS):
        for call in module.calls_by_name.get(called, []):
            given = [*call.args[: 1 if called != "Process" else 0], *(k.value for k in call.keywords)]
            if (called in _POOL or _is_daemon(module, call)) and any(
                isinstance(part, ast.Name) and _is(project, module, part, function)
                for value in given
                for part in walk(value)
            ):
                return True
    return False


def _is(project: Project, module: ModuleIndex, name: ast.Name, function: NodeRef) -> bool:
    if module is function.module:
        return name.id == getattr(function.node, "name", "")
    return any(ref.node is function.node for ref in project.fact(Resolver).points_to(module, name))


def _is_task(function: NodeRef) -> bool:
    return "celery" in function.module.packages and any(
        last_name(decorator.func if isinstance(decorator, ast.Call) else decorator) in _TASKS
        for decorator in getattr(function.node, "decorator_list", ())
    )


def _is_daemon(module: ModuleIndex, process: ast.Call) -> bool:
    """``Process(target=train, daemon=True)``, and ``process.daemon = True`` behind ``process = Process(...)``"""
    if any(keyword.arg == "daemon" and getattr(keyword.value, "value", True) for keyword in process.keywords):
        return True
    made = module.syntax.parents.get(process)
    targets = made.targets if isinstance(made, ast.Assign) else ()
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    return any(
        isinstance(target, ast.Attribute)
        and target.attr == "daemon"
        and isinstance(target.value, ast.Name)
        and target.value.id in names
        and module.scope(target) is module.scope(process)
        and getattr(one.value, "value", True)
        for one in (module.syntax.of(ast.Assign) if names else ())
        for target in one.targets
    )
