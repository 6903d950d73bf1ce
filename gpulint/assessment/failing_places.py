"""Places that a program never gets to, or not more than once, as it raises an error first."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.unmoved_models import leaves_model_on_host, leaves_models_of
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.semantic.failing_calls import is_only_called
from gpulint.semantic.failing_results import failures, step_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.unfit_arguments import WORKS, takes_steps
from gpulint.training.unfit_batches import unpacks_other_batches
from gpulint.workload.failing_samples import draws_failing, failing_sample
from gpulint.workload.unfit_steps import feeds_unfit_steps
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, ModuleIndex, NodeRef, last_name, source_text

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

MAX_CALLS = 3
"""How many calls lead from a program to a place."""
MAX_USERS = 10
"""Most programs of a module that are looked at."""
_DOES_MORE = frozenset({"backward", "ArgumentParser", "parse_args", "DataLoader", "fit", "main"})
"""Calls of a program, unlike those of a module that tries what it defines when it is started."""
_DRAWS = frozenset({"fit", "prepare", "setup_dataloaders", "train_dataloader", "initialize"})
"""Calls by which a program may draw from a loader in no loop of its own."""
_NOT_COMPILED = ("keyword argument repeated", "outside function", "outside loop", "not properly in loop")


def fails_there(subject: Subject) -> bool:
    """Return whether the function around a place, the program that calls it, its training loop, or each sample that
    the loop draws, always raises an error, so that no job runs more than a step of it."""
    module, node = subject.module, subject.node
    if module is None or node is None or subject.is_notebook:
        return False
    if _is_not_reached(subject.project, module, node, MAX_CALLS) or _only_failing_import(subject.project, module, node):
        return True
    if isinstance(node, LOOPS) and _stops(subject.project, module, node):
        return True
    if not subject.contexts and _takes_no_step(subject.project, module):
        return True
    loader = subject.cost.loader if subject.cost is not None else None
    if loader is not None and (
        failing_sample(subject.project, loader) is not None
        or _feeds_only_failing_loops(subject.project, loader)
        or feeds_unfit_steps(subject.project, loader)
    ):
        return True
    loops = [context.loop for context in subject.contexts if isinstance(context.loop.node, LOOPS)]
    return (
        bool(loops)
        and all(_stops(subject.project, loop.module, loop.node) for loop in loops)
        and _only_runs_in(subject.project, NodeRef(module, node), {loop.node for loop in loops}, MAX_CALLS)
    )


@query
def _stops(project: Project, module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether a loop is not reached, or raises an error in its first round."""
    return (
        any(failures(project, module, loop))
        or draws_failing(project, module, loop)
        or unpacks_other_batches(project, module, loop)
        or _is_not_reached(project, module, loop, MAX_CALLS)
    )


@query
def _feeds_only_failing_loops(project: Project, loader: Loader) -> bool:
    """Return whether all loops that draw from a loader are in its file, which hands it to no framework, and stop before
    the second step."""
    reads = project.fact(BatchFlow).of_loader(loader.module, loader.node)
    loops = [read.where for read in reads]
    return (
        bool(loops)
        and all(loop.module is loader.module and isinstance(loop.node, LOOPS) for loop in loops)
        and _DRAWS.isdisjoint(loader.module.calls_by_name)
        and all(_stops(project, loop.module, loop.node) for loop in loops)
    )


def leaves_model(subject: Subject) -> bool:
    """Return whether each loop around a place, or that draws from its loader, moves batches to what may be a GPU and
    leaves the model that gets them on the CPU, so that it only runs where there is no GPU."""
    if subject.is_notebook:
        return False
    loader = subject.cost.loader if subject.cost is not None else None
    loops = [(one.loop.module, one.loop.node) for one in subject.contexts]
    if not loops:
        return loader is not None and leaves_models_of(subject.project, loader)
    return all(isinstance(node, LOOPS) and leaves_model_on_host(subject.project, where, node) for where, node in loops)


def _only_runs_in(project: Project, place: NodeRef, loops: set[ast.AST], calls: int) -> bool:
    """Return whether all calls that lead to a place are in one of these loops: another program may call the function
    around it outside of any."""
    module = place.module
    if any(up in loops for up in module.syntax.ancestors(place.node)):
        return True
    function = module.function(place.node)
    if function is None:
        return False
    sites = project.fact(Resolver).call_sites(module, function) if calls else ()
    return all(
        _is_not_reached(project, site.module, site.node, calls - 1) or _only_runs_in(project, site, loops, calls - 1)
        for site in sites
    )


def _only_failing_import(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place runs where a module is imported, and all programs that do raise an error before they
    train."""
    started = "__main__" in module.syntax.source.text and not _DOES_MORE.isdisjoint(module.calls_by_name)
    if module.function(node) is not None or started:
        return False
    return _is_for_failing_programs(project, module)


@query
def _takes_no_step(project: Project, module: ModuleIndex) -> bool:
    """Return whether a program that no other one imports only takes gradients in loops that raise an error in their
    first round, one of which runs in any case."""
    if any(True for _ in project.fact(GpuPrograms).users(module.path)):
        return False
    parts = (module, *map(project.module_at, project.imported(module.path)))
    taken = [
        NodeRef(part, call) for part in parts if part is not None for call in part.calls_by_name.get("backward", ())
    ]
    loops = [_failing_loops(project, one, MAX_CALLS) for one in taken]
    return all(loops) and any(_always_runs(project, loop, MAX_CALLS) for found in loops for loop in found)


def _failing_loops(project: Project, place: NodeRef, calls: int) -> list[NodeRef]:
    """Return the loops around a place, also where it is called, that raise an error in their first round; none if it
    may run in no such loop."""
    module = place.module
    for up in module.syntax.ancestors(place.node):
        if isinstance(up, LOOPS) and _stops(project, module, up):
            return [NodeRef(module, up)]
    function = module.function(place.node)
    sites = project.fact(Resolver).call_sites(module, function) if function is not None and calls else ()
    found = [_failing_loops(project, site, calls - 1) for site in sites]
    return [loop for one in found for loop in one] if all(found) else []


def _always_runs(project: Project, place: NodeRef, calls: int) -> bool:
    """Return whether no option decides whether a program gets to a place."""
    module = place.module
    for up in module.syntax.ancestors(place.node):
        if isinstance(up, ast.Try) or (isinstance(up, ast.If) and "__main__" not in source_text(module, up.test)):
            return False
    function = module.function(place.node)
    sites = project.fact(Resolver).call_sites(module, function) if function is not None and calls else ()
    return function is None or any(_always_runs(project, site, calls - 1) for site in sites)


@query
def _is_for_failing_programs(project: Project, module: ModuleIndex) -> bool:
    programs = project.fact(GpuPrograms)
    users = [project.module_at(path) for path in islice(programs.users(module.path), MAX_USERS + 1)]
    ends = [user for user in users if user is not None and not any(True for _ in programs.users(user.path))]
    return (
        bool(ends)
        and len(users) <= MAX_USERS
        and None not in users
        and all(_never_trains(project, end) for end in ends)
    )


def _never_trains(project: Project, module: ModuleIndex) -> bool:
    """Return whether a program and what it imports take gradients, and none of these places is reached."""
    parts = (module, *map(project.module_at, project.imported(module.path)))
    taken = [(part, call) for part in parts if part is not None for call in part.calls_by_name.get("backward", ())]
    return bool(taken) and all(_is_not_reached(project, part, call, MAX_CALLS) for part, call in taken)


@query
def _is_not_reached(project: Project, module: ModuleIndex, node: ast.AST, calls: int) -> bool:
    """Return whether an error is raised before each run of a node, but perhaps the first one in a loop."""
    if is_not_compiled(module) or any(
        _comes_before(module, error, node, block)
        for block in _blocks(module, node)
        for error in failures(project, module, block)
    ):
        return True
    function = module.function(node)
    if function is None or not calls or not is_only_called(project, module, function):
        return False
    sites = project.fact(Resolver).call_sites(module, function)
    return bool(sites) and all(_is_not_reached(project, site.module, site.node, calls - 1) for site in sites)


def _blocks(module: ModuleIndex, node: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs a node as a part of it: loops, the function, what a program starts with, the module."""
    for up in module.syntax.ancestors(node):
        if isinstance(up, (*LOOPS, *FUNCTIONS, ast.Module)) or (
            isinstance(up, ast.If) and "__main__" in source_text(module, up.test)
        ):
            yield up


def _comes_before(module: ModuleIndex, error: ast.expr, node: ast.AST, block: ast.AST) -> bool:
    """Return whether an error is raised before a node of the block runs, or before it runs again."""
    start, end = getattr(node, "lineno", 0), error.lineno
    inner = next((up for up in module.syntax.ancestors(node) if up is block or isinstance(up, FUNCTIONS)), block)
    if inner is not block:
        start = 0  # a function in the block runs when what is below it calls it
    elif end <= start:
        return True
    around = set(module.syntax.ancestors(error))
    step = step_of(module, error)
    between = (part for part in _works_of(module, block) if start <= part.lineno <= end and part not in around)
    return not any(_may_work(part, error, step, module) for part in between) and not any(
        isinstance(up, LOOPS) and up not in around for up in _up_to(module, node, block)
    )


@query
def _works_of(_: ModuleIndex, block: ast.AST) -> tuple[ast.For | ast.While | ast.Call, ...]:
    """Return the parts of a block that may be all that matters: loops, and calls by what they are named."""
    return tuple(
        part
        for part in walk(block)
        if isinstance(part, ast.For | ast.While)
        or (isinstance(part, ast.Call) and WORKS.search(last_name(part.func)) is not None)
    )


def _up_to(module: ModuleIndex, node: ast.AST, block: ast.AST) -> Iterator[ast.AST]:
    for up in module.syntax.ancestors(node):
        if up is block:
            return
        yield up


def _may_work(part: ast.AST, error: ast.expr, step: ast.AST | None, module: ModuleIndex) -> bool:
    """Return whether a statement in front of an error may be all that matters, other than as a part of one step."""
    if part is error:
        return False
    if step is not None and step in module.syntax.ancestors(part):
        return isinstance(part, LOOPS) and takes_steps(part)
    return True


@query
def is_not_compiled(module: ModuleIndex) -> bool:
    """Return whether Python reads a module but does not compile it, as it passes a keyword twice, or returns outside of
    all functions."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(module.syntax.source.text, "module", "exec", dont_inherit=True)
    except SyntaxError as error:
        return any(text in (error.msg or "") for text in _NOT_COMPILED)
    except (ValueError, RecursionError, MemoryError):
        return False
    return False
