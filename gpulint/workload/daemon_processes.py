"""Loaders that are made in processes of a pool.

Those of a ``multiprocessing.Pool`` are daemonic and may not have children: starting a worker there raises an error.
Celery runs its tasks in such processes as well. Those of a ``ProcessPoolExecutor`` and of joblib may, and each would
start workers of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
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
_EXECUTORS = frozenset({"ProcessPoolExecutor", "Parallel"})
_EXECUTOR_WORDS = frozenset(name.encode() for name in _EXECUTORS)
_CLIENT_WORDS = frozenset({b"client_fn", b"ClientApp"})
_SUBMITS = ("submit", "map")
_DELAYS = ("delayed",)
_SIZES = ("max_workers", "n_jobs")


def may_have_no_workers(project: Project, loader: Loader) -> bool:
    """Return whether the loader is made in a daemonic process."""
    return any(
        _handed_to_daemon(home, function, project)
        for function in _functions_around(project, loader)
        for home in (function.module, *_starters(project, function.module, _WORDS))
    )


def is_made_in_each_process(project: Project, loader: Loader) -> bool:
    """Return whether each of several processes makes the loader, to which an executor submits a function."""
    return any(
        _handed_to_executor(home, function, project)
        for function in _functions_around(project, loader)
        for home in (function.module, *_starters(project, function.module, _EXECUTOR_WORDS))
    )


def is_made_for_clients(project: Project, loader: Loader) -> bool:
    """Return whether a function makes the loader that Flower calls anew for each client and round
    (``start_simulation(client_fn=make_client)``)."""
    return any(
        isinstance(given, ast.Name) and _is(project, home, given, function)
        for function in _functions_around(project, loader)
        for home in (function.module, *_starters(project, function.module, _CLIENT_WORDS))
        for given in _client_functions(home)
    )


@query
def _client_functions(module: ModuleIndex) -> list[ast.expr]:
    """Return the functions that a module gives to Flower to make clients with."""
    apps = module.calls_by_name.get("ClientApp", ())
    named = [keyword.value for call in module.calls for keyword in call.keywords if keyword.arg == "client_fn"]
    return [*named, *(call.args[0] for call in apps if call.args)]


def _functions_around(project: Project, loader: Loader) -> list[NodeRef]:
    """Return the functions through which the loader is made."""
    around = callers(project, NodeRef(loader.module, loader.node), _MAX_CALLERS)
    functions = {at.function: at.ref.module for at in around if at.function is not None}
    return [NodeRef(module, function) for function, module in functions.items()]


def _starters(project: Project, module: ModuleIndex, words: frozenset[bytes]) -> Iterator[ModuleIndex]:
    """Yield the modules that import one and start processes."""
    for path in islice(project.fact(GpuPrograms).users(module.path), _MAX_USERS):
        found = project.module_at(path) if project.word_index.holds_one(path, words) else None
        if found is not None:
            yield found


def _handed_to_executor(module: ModuleIndex, function: NodeRef, project: Project) -> bool:
    """``executor.submit(train, seed)``, ``executor.map(train, seeds)``, ``Parallel(4)(delayed(train)(s) for ...)``"""
    calls = [call for name in _EXECUTORS for call in module.calls_by_name.get(name, ())]
    made = [call for call in calls if isinstance(call.func, ast.Name | ast.Attribute) and not _is_alone(call)]
    kinds = {last_name(call.func) for call in made}
    names = [*(_SUBMITS if "ProcessPoolExecutor" in kinds else ()), *(_DELAYS if "Parallel" in kinds else ())]
    return any(
        isinstance(call.func, ast.Name | ast.Attribute)
        and bool(call.args)
        and isinstance(given := call.args[0], ast.Name)
        and _is(project, module, given, function)
        for name in names
        for call in module.calls_by_name.get(name, ())
    )


def _is_alone(pool: ast.Call) -> bool:
    """Return whether a pool has one process, or threads."""
    sizes = [*pool.args[:1], *(one.value for one in pool.keywords if one.arg in _SIZES)]
    threads = any("thread" in ast.unparse(one.value) for one in pool.keywords if one.arg in ("backend", "prefer"))
    return threads or any(isinstance(size, ast.Constant) and size.value == 1 for size in sizes)


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
