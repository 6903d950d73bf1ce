"""Loaders that are made in daemonic processes, such as those of a ``multiprocessing.Pool``.

Those may not have children: starting a worker there raises an error. Celery runs its tasks in such processes as well.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.semantic.callers import callers
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_POOL = frozenset({"apply", "apply_async", "map", "map_async", "imap", "imap_unordered", "starmap", "starmap_async"})
_TASKS = frozenset({"task", "shared_task"})
_MAX_CALLERS = 4


def may_have_no_workers(project: Project, loader: Loader) -> bool:
    """Return whether the loader is made in a daemonic process."""
    around = callers(project, NodeRef(loader.module, loader.node), _MAX_CALLERS)
    functions = {at.function: at.ref.module for at in around if at.function is not None}
    return any(_handed_to_daemon(NodeRef(module, function)) for function, module in functions.items())


def _handed_to_daemon(function: NodeRef) -> bool:
    """Return whether the module passes it to a pool's method, or to a process that it makes a daemon."""
    name, module = getattr(function.node, "name", ""), function.module
    if "celery" in module.packages and any(
        last_name(decorator.func if isinstance(decorator, ast.Call) else decorator) in _TASKS
        for decorator in getattr(function.node, "decorator_list", ())
    ):
        return True
    pools = "Pool" in module.calls_by_name
    for called in (*(_POOL if pools else ()), "Process"):
        for call in module.calls_by_name.get(called, []):
            given = [*call.args[: 1 if called != "Process" else 0], *(k.value for k in call.keywords)]
            if (pools if called != "Process" else _is_daemon(module, call)) and any(
                isinstance(part, ast.Name) and part.id == name for value in given for part in walk(value)
            ):
                return True
    return False


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
