"""Numbers of a tensor on the GPU with which an inner loop indexes: one copy of the tensor brings all of them."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Edit, Fix, Safety
from gpulint.placement.sync_points import is_index_read
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.edits.statements import insert_above

_DESCRIPTION = "copy all numbers of `{}` to the host before the loop that indexes with them"


def with_numbers(found: HostWait) -> Fix | None:
    """Return the fix for a loop that indexes with the numbers of a tensor: ``zip(rows, targets.tolist())`` for
    ``zip(rows, targets)``, or ``target_list[i]`` for ``targets[i]``; None for all other reads."""
    module, sync = found.module, found.syncs[0]
    if not all(map(is_index_read, found.syncs)) or sync.value is None:
        return None
    for loop in module.syntax.ancestors(sync.node):
        if loop is found.context.loop.node:
            return None
        if not isinstance(loop, ast.For):
            continue
        match sync.value:
            case ast.Name(id=name) if (source := _source(loop, name)) is not None:
                return _of_names(module, loop, name, source)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Name(id=count)) if count in _names(loop.target):
                return _of_elements(module, loop, sync.value, name)
    return None


def _names(target: ast.expr) -> set[str]:
    return {part.id for part in walk(target) if isinstance(part, ast.Name)}


def _source(loop: ast.For, name: str) -> ast.expr | None:
    """Return the tensor that a loop goes through for one of its names."""
    target, source = loop.target, loop.iter
    match target, source:
        case ast.Tuple(elts=[_, inner]), ast.Call(func=ast.Name(id="enumerate"), args=[of]):
            target, source = inner, of
    match target, source:
        case ast.Name(id=own), ast.Name() if own == name:
            return source
        case ast.Tuple(elts=parts), ast.Call(func=ast.Name(id="zip"), args=given) if len(parts) == len(given):
            at = next((at for at, part in enumerate(parts) if isinstance(part, ast.Name) and part.id == name), -1)
            return given[at] if at >= 0 and isinstance(given[at], ast.Name) else None
    return None


def _of_names(module: ModuleIndex, loop: ast.For, name: str, source: ast.expr) -> Fix | None:
    uses = [part for part in walk(loop) if isinstance(part, ast.Name) and part.id == name]
    body = [part for part in uses if part not in set(walk(loop.target))]
    after = any(
        isinstance(part, ast.Name) and part.id == name and part.lineno > (loop.end_lineno or 0)
        for part in walk(module.function(loop) or module.syntax.tree)
    )
    if after or not body or not all(_is_index(module, part) for part in body):
        return None
    end = module.syntax.offsets(source)[1]
    edit = Edit(module.path, module.syntax.span_at(end, end), ".tolist()")
    return Fix(_DESCRIPTION.format(ast.unparse(source)), Safety.UNSAFE, (edit,))


def _of_elements(module: ModuleIndex, loop: ast.For, element: ast.Subscript, name: str) -> Fix | None:
    text = ast.unparse(element)
    uses = [part for part in walk(loop) if isinstance(part, ast.Subscript) and ast.unparse(part) == text]
    region = module.function(loop) or module.syntax.tree
    fresh = f"{name}_list"
    taken = any(isinstance(part, ast.Name) and part.id == fresh for part in walk(region))
    changed = any(
        isinstance(part, ast.Name) and part.id == name and not isinstance(part.ctx, ast.Load) for part in walk(loop)
    )
    stored = any(isinstance(part.ctx, ast.Store) for part in uses)
    indices = [part for part in uses if _is_index(module, part)]
    above = insert_above(module.syntax, loop, f"{fresh} = {name}.tolist()")
    if taken or changed or stored or above is None or len(indices) != len(uses):
        return None
    edits = [Edit(module.path, module.syntax.span_at(*module.syntax.offsets(part.value)), fresh) for part in indices]
    return Fix(_DESCRIPTION.format(name), Safety.UNSAFE, (above, *edits))


def _is_index(module: ModuleIndex, part: ast.expr) -> bool:
    up = module.syntax.parents.get(part)
    if isinstance(up, ast.Tuple):
        part, up = up, module.syntax.parents.get(up)
    return isinstance(up, ast.Subscript) and up.slice is part
