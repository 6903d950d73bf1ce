"""Loaders whose workers should not outlive a pass: the running pass would start again, workers would pile up, or go on
with an old copy of the data set."""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.query import query
from gpulint.semantic.callers import callers
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_iterables import unwrap_zipped
from gpulint.training.same_names import alternatives
from gpulint.workload.changed_parts import changes_of_parts
from gpulint.workload.loader_pools import SEVERAL, kept_together
from gpulint.workload.pickled_loaders import is_pickled
from gpulint.workload.refreshed_data import is_refreshed
from gpulint.workload.replaced_loaders import is_replaced_each_round
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, NodeRef

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.placement.batch_flow import BatchRead
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import ModuleIndex

RESTARTED = "another iteration of the loader begins while one goes on, and persistent workers would restart that"
PILED_UP = "the program makes many such loaders and keeps them, and persistent workers of all would stay alive"
REPLACED = "each round of a loop makes the loader anew, and the workers of the last one would stay alive"
CHANGED = "the data set, or what it makes samples with, changes between passes, which persistent workers would not see"
PICKLED = "the program pickles or copies the loader, which cannot be while persistent workers are alive"
_CALLS = 3
"""Calls through which a loader that functions return is followed."""
_FEW = 4
"""Loaders that a program may well keep: one for each split of the data."""
_KEEPS = frozenset({"append", "appendleft", "add", "extend", "insert", "put", "setdefault", "update"})
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)


@query
def against_persistence(project: Project, loader: Loader) -> str:
    """Return why the workers of a loader, or of one that another branch binds to its name, should end with each pass;
    empty where nothing says so."""
    reasons = (_against(project, one) for one in (loader, *alternatives(project, loader)))
    return next(filter(None, reasons), "")


@query
def _against(project: Project, loader: Loader) -> str:
    if _is_restarted(project, loader):
        return RESTARTED
    if any(_is_kept(project, at.ref) for at in callers(project, loader.call, _CALLS)):
        return PILED_UP
    if kept_together(project, loader) > SEVERAL:
        return PILED_UP
    if is_replaced_each_round(project, loader):
        return REPLACED
    if is_pickled(project, loader):
        return PICKLED
    users = list(_users(project, loader))
    changes = is_refreshed(project, loader, users) or any(True for _ in changes_of_parts(project, loader, users))
    return CHANGED if changes else ""


def _users(project: Project, loader: Loader) -> Iterator[ModuleIndex]:
    """The modules that make a loader, draw from it, and have the loops around that."""
    yield loader.module
    loops = project.fact(LoopContexts)
    for read in project.fact(BatchFlow).of_loader(loader.module, loader.node):
        module = read.where.module
        yield module
        function = module.function(read.where.node)
        contexts = loops.enclosing_loops_of_function(module, function) if function is not None else ()
        yield from (context.loop.module for context in contexts)


def _is_restarted(project: Project, loader: Loader) -> bool:
    """Return whether a loop over the loader begins another pass over it, perhaps in a function that it calls: with
    persistent workers a loader has one iterator, which ``iter(loader)`` sets back."""
    flow = project.fact(BatchFlow)
    reads = flow.of_loader(loader.module, loader.node)
    loops = {read.where.node for read in reads if isinstance(read.where.node, ast.For | ast.AsyncFor)}
    if any(_zips_with_itself(loop) for loop in loops):
        return True
    for at, read in (*((read.where, read) for read in reads), *_begun(project, loader, reads)) if loops else ():
        around = pairwise([at.node, *_within(at.module, at.node)])
        if any(up in loops and _is_in_body(up, inner) for inner, up in around):
            return True
        function = at.module.function(at.node)
        contexts = project.fact(LoopContexts).enclosing_loops_of_function(at.module, function) if function else ()
        for context in contexts:
            if context.loop.node in loops and (read is None or flow.passes_loader(loader, read, context)):
                return True
    return False


def _begun(project: Project, loader: Loader, reads: list[BatchRead]) -> Iterator[tuple[NodeRef, None]]:
    """Yield where ``iter(loader)`` is called, in the modules that draw from the loader."""
    for module in dict.fromkeys((loader.module, *(read.where.module for read in reads))):
        for call in module.calls_by_name.get("iter", ()):
            made = project.fact(LoaderFlow).loaders_of(module, call.args[0]) if len(call.args) == 1 else ()
            if any(one.node is loader.node for one in made):
                yield NodeRef(module, call), None


def _is_in_body(loop: ast.AST, part: ast.AST) -> bool:
    return isinstance(loop, ast.For | ast.AsyncFor) and part in loop.body


def _zips_with_itself(loop: ast.AST) -> bool:
    """``zip(loader, loader)``"""
    assert isinstance(loop, ast.For | ast.AsyncFor)
    sources = [ast.unparse(source) for source in unwrap_zipped(loop.iter)]
    return len(sources) > len({*sources})


def _is_kept(project: Project, made: NodeRef) -> bool:
    """``loaders[client] = make_loader(client)`` and ``loaders.append(loader)`` in a loop of more than a few rounds."""
    module, names = made.module, set[str]()
    around = [up for up in _within(module, made.node) if isinstance(up, (*LOOPS, *_COMPREHENSIONS))]
    if not around or all(_is_short(project, module, up) for up in around):
        return False
    if isinstance(around[0], _COMPREHENSIONS) or _goes_into(module, made.node):
        return True
    match _statement(module, made.node):
        case ast.Assign(targets=targets):
            names = {part.id for target in targets for part in walk(target) if isinstance(part, ast.Name)}
    loop = next((up for up in around if isinstance(up, LOOPS)), None)
    return loop is not None and any(
        isinstance(use, ast.Name) and use.id in names and isinstance(use.ctx, ast.Load) and _goes_into(module, use)
        for use in walk(loop)
    )


def _within(module: ModuleIndex, node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is around a place in its function."""
    for up in module.syntax.ancestors(node):
        if isinstance(up, FUNCTIONS):
            return
        yield up


def _statement(module: ModuleIndex, node: ast.AST) -> ast.AST | None:
    return next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)


def _goes_into(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a value is put into a list or a table as it is, or as a part of something."""
    inner = node
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Assign(targets=[ast.Subscript() as target]):
                return inner is up.value and not isinstance(target.slice, ast.Constant)
            case ast.Call(func=ast.Attribute(attr=attr)) if attr in _KEEPS and inner is not up.func:
                return True
            case ast.Call() | ast.keyword() | ast.Tuple() | ast.List() | ast.Dict() | ast.Starred():
                pass
            case _:
                return False
        inner = up
    return False


def _is_short(project: Project, module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether a loop goes through a few items that are written out: ``for split in ["train", "val"]``."""
    if isinstance(loop, _COMPREHENSIONS):
        return all(_is_few(project, module, one.iter) for one in loop.generators)
    return isinstance(loop, ast.For | ast.AsyncFor) and _is_few(project, module, loop.iter)


def _is_few(project: Project, module: ModuleIndex, source: ast.expr) -> bool:
    match source:
        case ast.Call(func=ast.Attribute(value=table, attr="items" | "keys" | "values")):
            source = table
        case ast.Call(func=ast.Name(id="enumerate" | "zip" | "sorted" | "list" | "tqdm"), args=[first, *_]):
            return _is_few(project, module, first)
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int() as rounds)]):
            return rounds <= _FEW
    origins = [ref.node for ref in project.fact(Resolver).points_to(module, source)]
    return bool(origins) and all(map(_has_few, origins))


def _has_few(node: ast.AST) -> bool:
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            return len(elements) <= _FEW
        case ast.Dict(keys=keys):
            return len(keys) <= _FEW
        case ast.DictComp(generators=[ast.comprehension(iter=ast.List(elts=elements) | ast.Tuple(elts=elements))]):
            return len(elements) <= _FEW
    return False
