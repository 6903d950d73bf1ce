"""Tables of numbers that a function reads from the GPU and returns: ``return loss, {"kl": kl.item()}``. The function
returns tensors, and the table is converted where the training loop logs it and below all other calls."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, FunctionNode, LoopNode, ModuleIndex, NodeRef, last_name
from gpulint_fixers.waits.deferred_reads import loops_around
from gpulint_fixers.waits.device_reads import reads_of
from gpulint_fixers.waits.fix_kinds import READ_ELSEWHERE
from gpulint_fixers.waits.logs.log_intervals import is_short
from gpulint_fixers.waits.returns.known_calls import known_sites
from gpulint_fixers.waits.returns.return_types import promises_numbers
from gpulint_fixers.waits.returns.table_reads import table_of
from gpulint_fixers.waits.returns.table_uses import passed_up, used
from gpulint_fixers.waits.returns.tables import Table

_MOST_LEVELS = 2
"""Functions that return to their callers what they get."""


def returned_table(project: Project, found: HostWait, statement: ast.stmt) -> Fix | Declined:
    """Let the function return tensors in a table, and read them where the table is used."""
    module, function = found.module, found.module.function(statement)
    if function is None or isinstance(function, ast.Lambda):
        return READ_ELSEWHERE
    table = table_of(project, module, function, reads_of(project, found))
    sites = known_sites(project, module, function) if table is not None else None
    if table is None or sites is None:
        return READ_ELSEWHERE
    loops = set[ast.AST]()
    made = _followed(project, NodeRef(module, function), table, loops)
    if isinstance(made, Declined):
        return made
    if found.context.loop.node not in loops:
        return READ_ELSEWHERE
    return Fix(
        "; ".join([f"let `{function.name}` return tensors, and read them where they are logged", *table.reasons]),
        Safety.UNSAFE,
        tuple(dict.fromkeys([*table.edits(project, module, sites), *made])),
    )


def _followed(
    project: Project, given: NodeRef, table: Table, loops: set[ast.AST], depth: int = 0
) -> list[Edit] | Declined:
    """Edits of all that gets the table from a function, also through functions that return it to their callers.

    Adds the training loops that get it."""
    module, function = given.module, given.node
    assert isinstance(function, FUNCTIONS) and not isinstance(function, ast.Lambda)
    if promises_numbers(function):
        return Declined("the function's docstring says that it returns numbers")
    sites = known_sites(project, module, function)
    if sites is None:
        return READ_ELSEWHERE
    edits = _annotated(module, function, table)
    for site in sites:
        loop = training_loop(project, site)
        onward = _onward(project, site, table) if loop is None and depth < _MOST_LEVELS else None
        if loop is not None and is_short(loop) and not loops_around(site.module, loop):
            loop = None  # a test of the program, say: it goes on with numbers
        if onward is not None:
            made: Sequence[Edit] | Declined = _followed(project, onward[0], onward[1], loops, depth + 1)
        elif table.is_mixed and "torch" not in site.module.top.bindings:
            return READ_ELSEWHERE
        else:
            made = used(project, site, table, loop)
        if isinstance(made, Declined):
            return made
        edits += made
        if loop is not None:
            loops.add(loop)
    return edits


def _onward(project: Project, site: NodeRef, table: Table) -> tuple[NodeRef, Table] | None:
    """The function that returns the table to its own callers, if they are known; else a call gets numbers as before."""
    onward = passed_up(site, table)
    if onward is None:
        return None
    where, function = onward[0].module, onward[0].node
    assert isinstance(function, FUNCTIONS)
    return onward if known_sites(project, where, function) is not None else None


def training_loop(project: Project, site: NodeRef) -> LoopNode | None:
    """The training loop whose body has a call itself."""
    context = project.fact(LoopContexts).in_role(site.module, site.node, Role.STEP)
    if context is None or context.calls or not isinstance(context.loop.node, LOOPS):
        return None
    return context.loop.node if context.loop.node in site.module.syntax.ancestors(site.node) else None


def _annotated(module: ModuleIndex, function: ast.FunctionDef | ast.AsyncFunctionDef, table: Table) -> list[Edit]:
    """``dict[str, torch.Tensor]`` in the function's annotation, where it says ``dict[str, float]``."""
    if "torch" not in module.top.bindings:
        return []
    shown = [function.returns] if function.returns is not None else []
    own = (
        part
        for part in walk(function)
        if isinstance(part, ast.AnnAssign) and isinstance(part.value, ast.Dict | ast.DictComp)
    )
    shown += [part.annotation for part in own if ast.unparse(part.target) == table.name]
    name = "torch.Tensor | float" if table.is_mixed or table.other_keys else "torch.Tensor"
    return [
        Edit(module.path, module.syntax.span(value), name)
        for annotation in shown
        for part in walk(annotation)
        if isinstance(part, ast.Subscript)
        and last_name(part.value).lower() == "dict"
        and isinstance(part.slice, ast.Tuple)
        for value in part.slice.elts[1:]
        if isinstance(value, ast.Name) and value.id == "float"
    ]


def sites_of(project: Project, found: HostWait, function: FunctionNode) -> tuple[NodeRef, ...] | None:
    """All calls of the function, one of them in the body of a training loop; None if some are unknown."""
    context = found.context
    if len(context.calls) != 1 or context.role is not Role.STEP or not isinstance(context.loop.node, LOOPS):
        return None
    first, sites = context.calls[0], known_sites(project, found.module, function)
    if sites is None or first.node not in [site.node for site in sites]:
        return None
    if first.module is not context.loop.module or context.loop.node not in first.module.syntax.ancestors(first.node):
        return None
    return sites
