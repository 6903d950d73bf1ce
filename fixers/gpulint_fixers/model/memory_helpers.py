"""Functions of the tree that return memory: a step no longer calls them, and whoever calls them once still does."""

from __future__ import annotations

import ast
import re

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.training.loop_roles import Role
from gpulint.training.repetition import training_contexts
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name
from gpulint_fixers.edits.statements import remove_statement, with_own_comment

_FREES = frozenset({"empty_cache", "ipc_collect", "collect"})
_CHOOSES = frozenset({"device"})
"""Contexts that choose the GPU whose memory is freed."""


def without_calls(
    project: Project, module: ModuleIndex, call: ast.Call, speaks: re.Pattern[str]
) -> Fix | Declined | None:
    """Remove the calls of the function that a call is in from the loops of training steps; None where the call itself
    has to go: nothing but steps calls the function, which does more, or it is called by way of others."""
    function = module.function(call)
    if not isinstance(function, FUNCTIONS):
        return None
    sites = project.fact(Resolver).call_sites(module, function)
    steps = [site for site in sites if _is_in_step(project, site)]
    if not steps:
        return None
    if not all(_only_frees(statement) for statement in function.body):
        more = len(steps) < len(sites)
        return Declined(f"`{function.name}` is called elsewhere too, where it may be needed") if more else None
    edits = [_removal(site, speaks) for site in steps]
    if None in edits:
        return Declined(f"a call of `{function.name}` shares its line, or its value is used")
    return Fix(f"do not call `{function.name}` in each step", Safety.UNSAFE, tuple(edit for edit in edits if edit))


def _is_in_step(project: Project, site: NodeRef) -> bool:
    """Return whether each training step makes a call, in the function of the loop itself."""
    if project.fact(Guards).is_conditional(site.module, site.node):
        return False
    contexts = training_contexts(project, site.module, site.node)
    return any(context.role is Role.STEP and not context.calls for context in contexts)


def _only_frees(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            return True
        case ast.Import(names=[ast.alias(name="gc", asname=None)]):
            return True
        case ast.Expr(value=ast.Call(func=func, args=[], keywords=[])):
            return last_name(func) in _FREES
        case ast.If(body=body, orelse=orelse):
            return all(map(_only_frees, [*body, *orelse]))
        case ast.With(items=[ast.withitem(context_expr=ast.Call(func=func), optional_vars=None)], body=body):
            return last_name(func) in _CHOOSES and all(map(_only_frees, body))
        case ast.Try(body=body, handlers=handlers, orelse=[], finalbody=[]):
            caught = (part for handler in handlers for part in handler.body)
            return all(map(_only_frees, body)) and all(isinstance(part, ast.Pass) for part in caught)
    return False


def freeing_run(module: ModuleIndex, statement: ast.stmt) -> list[ast.stmt]:
    """The neighbours of a statement, on its line and those right above and below, that do nothing but free memory
    either, and the statement itself; with a test for a GPU, or a ``try``, of which it is all."""
    inner: ast.AST = statement
    for up in module.syntax.ancestors(statement):
        if not isinstance(up, ast.If | ast.Try | ast.With) or not _only_frees(up) or not _asks_for_gpu(up):
            break
        inner = up
    assert isinstance(inner, ast.stmt)
    place, parent = module.syntax.place(inner), module.syntax.parents.get(inner)
    if place is None or parent is None:
        return [inner]
    block: list[ast.stmt] = getattr(parent, place[0])
    first = last = place[1]
    while first > 0 and _goes_with(block[first - 1], block[first]):
        first -= 1
    while last + 1 < len(block) and _goes_with(block[last + 1], block[last]):
        last += 1
    run = block[first : last + 1]
    return [statement] if _imports_for_others(module, run) or _collects_by_hand(module, run) else run


def _collects_by_hand(module: ModuleIndex, run: list[ast.stmt]) -> bool:
    """Return whether statements collect garbage in place of Python's collector, which the module switches off."""
    disabled = any(ast.unparse(call.func) == "gc.disable" for call in module.calls_by_name.get("disable", ()))
    return disabled and any(
        isinstance(part, ast.Call) and last_name(part.func) == "collect" for one in run for part in walk(one)
    )


def _imports_for_others(module: ModuleIndex, run: list[ast.stmt]) -> bool:
    """Return whether an import among some statements is for code elsewhere too."""
    inside = {part for one in run for part in walk(one)}
    imports = [part for part in inside if isinstance(part, ast.Import)]
    if not imports:
        return False
    bound = module.scope(imports[0]).lookup("gc")
    named = module.named.get("gc", [])
    return any(node not in inside and module.scope(node).lookup("gc") == bound for node in named)


def _goes_with(one: ast.stmt, other: ast.stmt) -> bool:
    near = one.lineno - (other.end_lineno or 0) in (0, 1) or other.lineno - (one.end_lineno or 0) in (0, 1)
    frees = not isinstance(one, ast.Pass) and not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    return near and frees and _only_frees(one) and _asks_for_gpu(one)


def _asks_for_gpu(statement: ast.stmt) -> bool:
    """Return whether the conditions of a statement, if it has any, ask for nothing but a GPU."""
    tests = (part.test for part in walk(statement) if isinstance(part, ast.If))
    return all(
        last_name(part.func) == "is_available" for test in tests for part in walk(test) if isinstance(part, ast.Call)
    )


def _removal(site: NodeRef, speaks: re.Pattern[str]) -> Edit | None:
    module = site.module
    statement = module.syntax.parents.get(site.node)
    removal = remove_statement(module.syntax, statement) if isinstance(statement, ast.Expr) else None
    if removal is None or removal.span.cell is not None:
        return removal
    return with_own_comment(module.syntax.source, removal, speaks)
