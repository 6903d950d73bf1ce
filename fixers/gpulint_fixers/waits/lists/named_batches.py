"""Copies of batches that get a name before a list takes them, kept on the GPU until the loop has ended."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import LoopNode, ModuleIndex
from gpulint_fixers.edits.comments import commented_prints
from gpulint_fixers.edits.statements import remove_statement
from gpulint_fixers.waits.deferred_reads import Variable
from gpulint_fixers.waits.lists.device_lists import KEPT_BATCHES, after_loop, gathered, kept_batch
from gpulint_fixers.waits.lists.whole_reads import WholeRead, flat_read


def gathered_by_name(project: Project, found: HostWait, statement: ast.Assign, loop: LoopNode) -> Fix | Declined | None:
    """``rows = labels.cpu().numpy()`` and then ``all_labels.extend(rows)``, which is all that is done with it; None for
    anything else."""
    module, document = found.module, project.document(found.module.path)
    if document is None or len(statement.targets) != 1 or not isinstance(name := statement.targets[0], ast.Name):
        return None
    if flat_read(statement.value)[0] is None:
        return None
    variable = Variable(module, document, loop, name.id, definition=statement)
    uses = variable.occurrences()
    if uses is None:
        return gathered_of_branches(project, found, statement, loop, name)
    if len(uses) != 1 or not _follows(module, statement, use := variable.statement(uses[0])):
        return None
    match use:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(attr="extend" | "append" as method, value=ast.Name() as target), args=[value]
            )
        ) if value is uses[0]:
            rows = method == "extend"
        case ast.AugAssign(target=ast.Name() as target, op=ast.Add(), value=value) if value is uses[0]:
            rows = True
        case _:
            return None
    made = gathered(project, found, use, loop, target, statement.value, rows=rows)
    removed = remove_statement(module.syntax, statement)
    if isinstance(made, Declined) or removed is None or removed.text:
        return made if isinstance(made, Declined) else None
    prints = commented_prints(module.syntax, loop, name.id)
    return replace(made, edits=(removed, *prints, *made.edits))


def gathered_of_branches(
    project: Project, found: HostWait, statement: ast.Assign, loop: LoopNode, name: ast.Name
) -> Fix | Declined | None:
    """``rows = labels.cpu().numpy()`` in each branch, and then ``all_labels.extend(rows)``: branches keep tensors."""
    module = found.module
    bindings = module.scope(loop).bindings.get(name.id, [])
    loads = [node for node in module.uses.get(name.id, ()) if module.scope(node).lookup(name.id) is bindings]
    seen = {node: reaching(module, bindings, node) for node in loads}
    uses = [node for node, known in seen.items() if any(one.node is statement for one in known)]
    if len(uses) != 1:
        return None
    made, reads = [one.node for one in seen[uses[0]]], dict[ast.Assign, tuple[WholeRead, str]]()
    for one in made:
        if not isinstance(one, ast.Assign) or len(one.targets) != 1 or loop not in module.syntax.ancestors(one):
            return None
        read, shape = flat_read(one.value)
        if read is None or any(node is not uses[0] and one in [b.node for b in seen[node]] for node in loads):
            return None
        reads[one] = read, shape
    steps = {(read.text, "numpy" in read.steps or "tolist" in read.steps) for read, _ in reads.values()}
    use = next(up for up in module.syntax.ancestors(uses[0]) if isinstance(up, ast.stmt))
    match use:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="extend", value=ast.Name() as target), args=[value])) if (
            value is uses[0] and len(steps) == 1 and steps.pop()[1]
        ):
            pass
        case _:
            return None
    after = after_loop(project, found, use, loop, target, reads[statement][0], rows=True)
    if not isinstance(after, tuple):
        return after
    kept = (
        Edit(module.path, module.syntax.span(one.value), f"{kept_batch(module, loop, read.tensor)}{shape}")
        for one, (read, shape) in reads.items()
    )
    appended = Edit(module.path, module.syntax.span(use), f"{target.id}.append({name.id})")
    return Fix(KEPT_BATCHES, Safety.UNSAFE, (*kept, appended, *after))


def _follows(module: ModuleIndex, statement: ast.stmt, use: ast.stmt) -> bool:
    """Return whether a statement is in the same block as another one, and nothing between them changes the tensors of
    that one."""
    place, later = module.syntax.place(statement), module.syntax.place(use)
    parent = module.syntax.parents.get(statement)
    if place is None or later is None or parent is not module.syntax.parents.get(use) or place[0] != later[0]:
        return False
    read = {part.id for part in walk(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
    between: list[ast.stmt] = getattr(parent, place[0])[place[1] + 1 : later[1]]
    plain = all(isinstance(one, ast.Assign | ast.AugAssign | ast.Expr) for one in between)
    named = {part.id for one in between for part in walk(one) if isinstance(part, ast.Name)}
    return place[1] < later[1] and plain and (not between or not read & named or _only_reads(between, read))


def _only_reads(between: list[ast.stmt], names: set[str]) -> bool:
    """Return whether statements leave the tensors of some names alone."""
    for part in (part for one in between for part in walk(one)):
        match part:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if name in names:
                return False
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()) if name in names:
                return False
            case ast.Call(func=ast.Attribute(attr=attr)) if attr.endswith("_"):
                return False
    return True
