"""Values on the host that a function returns, and that the training loop throws away: the function returns the tensors,
and whoever uses copies of whole ones makes them."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Edit, Fix, Safety
from gpulint.project import Project
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, NodeRef
from gpulint_fixers.edits.statements import insert_below
from gpulint_fixers.waits.lists.whole_reads import WholeRead, operand, whole_read
from gpulint_fixers.waits.returns.returned_tables import sites_of, training_loop


def returned_copies(project: Project, found: HostWait, statement: ast.stmt) -> Fix | None:
    """``loss, _, _ = step(batch)`` where the function has ``return loss, scores.cpu(), labels.cpu()``; None for
    others."""
    module, function = found.module, found.module.function(statement)
    if not isinstance(function, FUNCTIONS) or not isinstance(statement, ast.Return):
        return None
    returns = [node for node in walk(function) if isinstance(node, ast.Return) and module.function(node) is function]
    if len(returns) != 1 or not isinstance(statement.value, ast.Tuple) or function.returns is not None:
        return None
    if (kept := _unused_numbers(project, found, function, statement.value.elts)) is not None:
        return kept
    reads = {at: read for at, value in enumerate(statement.value.elts) if (read := whole_read(value)) is not None}
    read_nodes = {part for read in reads.values() for part in walk(read.whole)}
    sites = sites_of(project, found, function)
    if not reads or sites is None or any(sync.node not in read_nodes for sync in found.syncs):
        return None
    edits = [Edit(module.path, module.syntax.span(read.whole), _kept(found, read)) for read in reads.values()]
    for site in sites:
        used = _used(site, len(statement.value.elts))
        if used is None or (training_loop(project, site) is not None and used.keys() & reads.keys()):
            return None
        lines = [f"{used[at]} = {used[at]}{read.text}" for at, read in reads.items() if at in used]
        if lines:
            parent = site.module.syntax.parents[site.node]
            below = insert_below(site.module.syntax, parent, "\n".join(lines)) if isinstance(parent, ast.stmt) else None
            if below is None:
                return None
            edits.append(below)
    return Fix(f"let `{function.name}` return tensors, and copy them where they are used", Safety.UNSAFE, tuple(edits))


def _unused_numbers(project: Project, found: HostWait, function: FunctionNode, values: list[ast.expr]) -> Fix | None:
    """``return loss, (first.detach(), second.detach())`` for numbers that no call of the function uses."""
    homes = {at for at, value in enumerate(values) for sync in found.syncs if sync.node in {*walk(value)}}
    sites = sites_of(project, found, function)
    if not homes or not sites or not all(isinstance(values[at], ast.Tuple | ast.List | ast.Dict) for at in homes):
        return None
    for site in sites:
        used = _used(site, len(values))
        if used is None or used.keys() & homes:
            return None
    edits = list[Edit]()
    for sync in found.syncs:
        match sync.node:
            case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[]):
                text = f"{operand(found.module, tensor)}.detach()"
                edits.append(Edit(found.module.path, found.module.syntax.span(sync.node), text))
            case _:
                return None
    return Fix(f"let `{function.name}` return tensors, as no call uses the numbers", Safety.UNSAFE, tuple(edits))


def _kept(found: HostWait, read: WholeRead) -> str:
    """The tensor that takes the place of its copy."""
    if {"detach", "data"}.intersection(read.steps):
        return f"{operand(found.module, read.tensor)}.detach()"
    return found.module.syntax.text(read.tensor)


def _used(site: NodeRef, count: int) -> dict[int, str] | None:
    """The variables that get the values of a call and that something reads, by their places; None for other uses of
    what it returns."""
    parent = site.module.syntax.parents.get(site.node)
    if isinstance(parent, ast.Expr):
        return {}
    match parent:
        case ast.Assign(targets=[ast.Tuple(elts=parts)]) if len(parts) == count:
            names = [part for part in parts if isinstance(part, ast.Name)]
        case _:
            return None
    if len(names) < count:
        return None
    return {at: name.id for at, name in enumerate(names) if name.id != "_" and _is_read(site, name)}


def _is_read(site: NodeRef, target: ast.Name) -> bool:
    module = site.module
    return any(
        isinstance(node.ctx, ast.Load)
        and any(
            one.node in (target, *module.syntax.ancestors(target))
            for one in reaching(module, module.scope(node).lookup(target.id), node)
        )
        for node in module.named.get(target.id, [])
    )
