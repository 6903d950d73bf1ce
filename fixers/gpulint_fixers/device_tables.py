"""Lists in a table or an object to which a training step appends what it reads: ``history["loss"].append(...)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Fix, Safety
from gpulint.workspace.module_index import FUNCTIONS, LoopNode, ModuleIndex
from gpulint_fixers.deferred_reads import insert_after
from gpulint_fixers.device_lists import appends_number, kept_value
from gpulint_fixers.device_reads import is_integer, reads_of


def recorded(found: HostWait, statement: ast.stmt, loop: LoopNode, target: ast.Subscript) -> Fix | Declined:
    """Keep tensors in the list, and make numbers of them below the loop."""
    module, table, key = found.module, target.value, target.slice
    own = isinstance(table, ast.Attribute) and isinstance(table.value, ast.Name) and table.value.id == "self"
    if not isinstance(key, ast.Constant) or not (own or isinstance(table, ast.Name)):
        return Declined("the list is not one entry of a table")
    name = ast.unparse(table)
    if not _starts_as_list(module, name, key):
        return Declined(f"`{ast.unparse(target)}` does not start as an empty list in this module")
    reads = reads_of(found)
    if isinstance(reads, Declined):
        return reads
    match statement:
        case ast.Expr(value=ast.Call(args=[value])) if len(reads) == 1 and value is reads[0].whole:
            pass
        case _:
            return Declined("more is done with the number than listing it")
    if is_integer(module, reads[0].tensor):
        return Declined("the list holds integers")
    if not all(_only_appends(module, use, key) for use in _uses(loop, name)) or (
        own and _methods_read(module, loop, table)
    ):
        return Declined(f"`{name}` is read in the loop")
    text = module.syntax.text(target)
    below = insert_after(module, loop, f"{text}[:] = map(float, {text})")
    if below is None or loop.orelse:
        return Declined("the loop shares a line with another statement, or has an `else`")
    return Fix(
        "keep the values on the GPU and read them after the loop",
        Safety.UNSAFE,
        (reads[0].replaced(module, kept_value(reads[0].tensor)), below),
    )


def _uses(loop: LoopNode, name: str) -> Iterator[ast.expr]:
    """The places of a loop where a table is named."""
    for part in walk(loop):
        if isinstance(part, ast.Name | ast.Attribute) and ast.unparse(part) == name:
            yield part


def _only_appends(module: ModuleIndex, use: ast.expr, key: ast.Constant) -> bool:
    """``history["loss"].append(loss.item())``, or anything that another list of the table gets."""
    entry = module.syntax.parents.get(use)
    method = module.syntax.parents.get(entry) if isinstance(entry, ast.Subscript) and entry.value is use else None
    call = module.syntax.parents.get(method) if isinstance(method, ast.Attribute) else None
    statement = module.syntax.parents.get(call) if isinstance(call, ast.Call) else None
    match statement, entry:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"))), ast.Subscript(slice=ast.Constant(value=own)):
            return own != key.value or appends_number(module, statement)
    return False


def _starts_as_list(module: ModuleIndex, name: str, key: ast.Constant) -> bool:
    """``history["loss"] = []`` or ``history = {"loss": []}``, and nothing else that sets either."""
    found = False
    for node in module.syntax.nodes:
        match node:
            case ast.Assign(targets=[ast.Subscript(value=table, slice=ast.Constant(value=own))], value=value):
                if own == key.value and ast.unparse(table) == name:
                    found = isinstance(value, ast.List) and not value.elts
                    if not found:
                        return False
            case ast.Assign(targets=[table], value=ast.Dict(keys=keys, values=values)) if ast.unparse(table) == name:
                starts = dict(zip((ast.unparse(k) if k else "" for k in keys), values, strict=True))
                start = starts.get(ast.unparse(key))
                found = found or (isinstance(start, ast.List) and not start.elts)
    return found


def _methods_read(module: ModuleIndex, loop: LoopNode, table: ast.expr) -> bool:
    """Return whether a method that the loop calls may read the table of its object."""
    assert isinstance(table, ast.Attribute)
    owner = module.class_of(loop)
    called = {
        part.func.attr
        for part in walk(loop)
        if isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and ast.unparse(part.func.value) == "self"
    }
    return owner is not None and any(
        isinstance(part, ast.Attribute) and part.attr == table.attr
        for method in owner.body
        if isinstance(method, FUNCTIONS) and not isinstance(method, ast.Lambda) and method.name in called
        for part in walk(method)
    )
