"""Tables of numbers that a function reads from the GPU and returns: ``return loss, {"kl": kl.item()}``. The function
returns tensors, and the table is converted where the training loop logs it and below all other calls."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import LOOPS, FunctionNode, ModuleIndex, NodeRef, last_name
from gpulint_fixers.device_reads import reads_of
from gpulint_fixers.return_types import promises_numbers
from gpulint_fixers.table_reads import Table, table_of
from gpulint_fixers.table_uses import used

_NO = Declined("the value is read in a function that the loop calls; return the tensor and read it less often")
_MOST_SITES = 6


def returned_table(project: Project, found: HostWait, statement: ast.stmt) -> Fix | Declined:
    """Let the function return tensors in a table, and read them where the table is used."""
    module, function = found.module, found.module.function(statement)
    if function is None or isinstance(function, ast.Lambda):
        return _NO
    table = table_of(project, module, function, reads_of(found))
    sites = sites_of(project, found, function) if table is not None else None
    if table is None or sites is None:
        return _NO
    if promises_numbers(function):
        return Declined("the function's docstring says that it returns numbers")
    loop = found.context.loop.node
    if table.is_mixed and not all("torch" in site.module.top.bindings for site in sites):
        return _NO
    edits = table.edits(project, module, sites)
    edits += _annotated(module, function, table)
    for site in sites:
        inside = site.node is found.context.calls[0].node and isinstance(loop, LOOPS)
        made = used(project, site, table, loop if inside and isinstance(loop, LOOPS) else None)
        if isinstance(made, Declined):
            return made
        edits += made
    return Fix(
        f"let `{function.name}` return tensors, and read them where they are logged",
        Safety.UNSAFE,
        tuple(dict.fromkeys(edits)),
    )


def _annotated(module: ModuleIndex, function: ast.FunctionDef | ast.AsyncFunctionDef, table: Table) -> list[Edit]:
    """``dict[str, torch.Tensor]`` in the function's annotation, where it says ``dict[str, float]``."""
    if "torch" not in module.top.bindings:
        return []
    shown = [function.returns] if function.returns is not None else []
    own = (part for part in walk(function) if isinstance(part, ast.AnnAssign) and isinstance(part.value, ast.Dict))
    shown += [part.annotation for part in own if ast.unparse(part.target) == table.name]
    name = "torch.Tensor | float" if table.is_mixed else "torch.Tensor"
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
    resolver, first = project.fact(Resolver), context.calls[0]
    sites = resolver.call_sites(found.module, function)
    if not 0 < len(sites) <= _MOST_SITES or first.node not in [site.node for site in sites]:
        return None
    if first.module is not context.loop.module or context.loop.node not in first.module.syntax.ancestors(first.node):
        return None
    for site in sites:
        if not isinstance(site.node, ast.Call):
            return None
        if [callee.node for callee in resolver.callees(site.module, site.node)] != [function]:
            return None
    return sites
