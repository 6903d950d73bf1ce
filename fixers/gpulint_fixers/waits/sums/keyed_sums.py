"""Sums in tables: ``sums["loss"] += loss.item()``, ``sums[key] = sums.get(key, 0.0) + value.item()``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Fix, Safety
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.workspace.module_index import LoopNode, ModuleIndex, last_name
from gpulint_fixers.edits.places import formats, gives_keys
from gpulint_fixers.edits.statements import insert_above
from gpulint_fixers.waits.deferred_reads import Variable, defer, loops_around
from gpulint_fixers.waits.device_reads import DeviceRead, device_read, is_plain_number, reads_of, torch_of
from gpulint_fixers.waits.double_precision import has_doubles
from gpulint_fixers.waits.element_types import is_integer
from gpulint_fixers.waits.lists.list_reads import loop_of_history
from gpulint_fixers.waits.logs.seldom_blocks import read_seldom
from gpulint_fixers.waits.step_tests import trained_on
from gpulint_fixers.waits.sums.device_sums import exactness, is_number
from gpulint_fixers.waits.sums.kept_graphs import graphs_beside
from gpulint_fixers.waits.unread_values import unread


def keyed(project: Project, found: HostWait, statement: ast.AugAssign | ast.Assign, loop: LoopNode) -> Fix | Declined:
    """Sums in a dictionary or list, which holds numbers again after the loop."""
    reads = reads_of(project, found)
    if isinstance(reads, Declined):
        return reads
    added, document = _added(statement), project.document(found.module.path)
    if added is not None and document is not None:
        removed = unread(project, Variable(found.module, document, loop, added[0]), statement)
        if removed is not None:
            return removed
    return added_by_key(project, found.module, statement, loop, reads)


def added_by_key(
    project: Project, module: ModuleIndex, statement: ast.stmt, loop: LoopNode, reads: list[DeviceRead]
) -> Fix | Declined:
    """Let the entries of the table to which a statement adds be tensors inside of the loop."""
    added, document = _added(statement), project.document(module.path)
    if added is None or document is None:
        return Declined("the value is stored in an object or a table in every step")
    name, value = added
    variable = Variable(module, document, loop, name)
    initial = variable.initial()
    rows = bool(initial) and all(map(_is_row, initial or ()))
    empty = bool(initial) and all(map(_is_empty, initial or ()))
    if not initial or not (rows or empty or all(map(_is_table, initial))):
        return Declined(f"`{name}` does not start as a table of numbers in this function")
    keys = frozenset[ast.Name]() if rows else frozenset(_key_reads(module, loop, name))
    variable = replace(variable, loop=loop_of_history(module, loop, initial), ignored=keys)
    before = [value for value in initial if not variable.is_inside(value)]
    if not before or not all(loops_around(module, value) == loops_around(module, variable.loop) for value in before):
        return Declined(f"`{name}` is not set anew before the loop, which runs several times")
    own = {part for part in walk(loop) if _adds_to(part, name)}
    if isinstance(exact := exactness(project, module, value, reads), Declined):
        return exact
    torch = torch_of(module)
    counted = {one for one in own if torch is not None and _is_count(module, one, initial)}
    beside = [one[1] for part in own - {statement} if (one := _added(part)) is not None]
    graphs, unproved = graphs_beside(project, module, beside)
    convert = _conversion(rows, torch, bool(counted) or unproved, not rows and _counts_beside(module, own))
    if empty and isinstance(made_by := initial[0], ast.Call):
        convert = f"{ast.unparse(made_by.func)}({ast.unparse(made_by.args[0])}, {convert})"
    starts = _starts(loop, name)
    blocks = read_seldom(project, variable, _read_names(variable, {*own, *starts}), own)
    above = [insert_above(module.syntax, block.body[0], f"{name} = {convert.format(name)}") for block in blocks]
    variable = replace(variable, ignored=keys.union(*blocks.values()))
    made = defer(project, variable, convert, own={*own, *starts}, in_place=False)
    if isinstance(made, Declined):
        return made
    inside = [node for node in _read_names(variable, {*own, *starts}) if variable.is_inside(node)]
    if (inside and not (made.edits or above)) or None in above or not all(formats(module, node) for node in inside):
        return Declined(f"`{name}` is read in the loop")
    suffix = ".detach().double()" if has_doubles(project, module) else ".detach()"
    others = _other_reads(project, module, loop, own - {statement})
    replaced = (
        *(read.replaced(module, "" if statement in counted else suffix) for read in reads),
        *(one.replaced(module, suffix) for one in others),
    )
    edits = *replaced, *graphs, *filter(None, above), *made.edits
    logs = [] if made.logs is None else [f"they are logged every {made.logs.every} steps"]
    where = "where they are used" if above else "after the loop"
    note = "; ".join([where if counted else f"{where}, as floats", *exact.reasons, *logs])
    return Fix(f"add up on the GPU and read the sums {note}", Safety.UNSAFE, edits)


def _starts(loop: LoopNode, name: str) -> set[ast.stmt]:
    """Return the statements of a loop that start entries of a table."""
    starting = (one for one in walk(loop) if _starts_entry(one, name))
    return {part for one in starting for part in walk(one) if isinstance(part, ast.stmt)}


def _conversion(rows: bool, torch: str | None, counted: bool, beside: bool) -> str:
    """Return what makes numbers of the entries of a table, or of a list of ``rows``; integers stay what they are where
    a table has counts as well."""
    number = "float(value)"
    if torch is not None and (counted or beside):
        number = f"{'value.item()' if counted else number} if {torch}.is_tensor(value) else value"
    return f"[{number} for value in {{}}]" if rows else f"{{{{key: {number} for key, value in {{}}.items()}}}}"


def _is_count(module: ModuleIndex, addition: ast.AugAssign | ast.Assign, initial: list[ast.expr]) -> bool:
    """Return whether a count is added to an entry that starts as an integer, so that it stays one."""
    value = (_added(addition) or ("", addition.value))[1]
    read = device_read(module, value) if isinstance(value, ast.Call) else None
    if read is None or read.whole is not value or read.copies or not is_integer(module, read.tensor):
        return False
    target = addition.target if isinstance(addition, ast.AugAssign) else addition.targets[0]
    key = target.slice if isinstance(target, ast.Subscript) else None
    starts = [_start(one, key) for one in initial]
    return all(isinstance(one, ast.Constant) and type(one.value) is int for one in starts)


def _start(table: ast.expr, key: ast.expr | None) -> ast.expr | None:
    """Return what an entry starts as: ``0`` in ``{"correct": 0}``; None if that is not known."""
    match table, key:
        case ast.Dict(keys=keys, values=values), ast.Constant(value=name):
            found = [value for one, value in zip(keys, values, strict=True) if ast.unparse(one or key) == repr(name)]
            return found[0] if len(found) == 1 else None
        case ast.List(elts=elements), ast.Constant(value=int(at)):
            return elements[at] if -len(elements) <= at < len(elements) else None
        case ast.BinOp(left=ast.List(elts=[start])), _:
            return start
        case ast.DictComp(value=start) | ast.Call(func=ast.Attribute(attr="fromkeys"), args=[_, start]), _:
            return start
    return None


def _counts_beside(module: ModuleIndex, additions: set[ast.AugAssign | ast.Assign]) -> bool:
    """Return whether a table also counts on the host, which stays an integer: ``sums["seen"] += len(labels)``."""
    return any(is_plain_number(module, added[1]) for one in additions if (added := _added(one)) is not None)


def _other_reads(
    project: Project, module: ModuleIndex, loop: LoopNode, additions: set[ast.AugAssign | ast.Assign]
) -> list[DeviceRead]:
    """Reads that other statements add to the table, of terms of the loss that are not known to be on the GPU."""
    known = {sync.node for sync in project.fact(SyncPoints).in_module(module)}
    found, losses = list[DeviceRead](), _terms(loop)
    for one in additions:
        value = (_added(one) or ("", one.value))[1]
        read = device_read(module, value) if isinstance(value, ast.Call) and value not in known else None
        if read is not None and ast.unparse(read.tensor) in losses:
            found.append(read)
    return found


def _terms(loop: LoopNode) -> set[str]:
    """The losses of a loop, and the variables of which it adds them up: ``loss = nll + beta * kl``."""
    losses = trained_on(loop)
    sums = [
        part.value
        for part in walk(loop)
        if isinstance(part, ast.Assign) and any(ast.unparse(target) in losses for target in part.targets)
    ]
    return losses | {
        part.id
        for value in sums
        if isinstance(value, ast.BinOp) and not any(isinstance(part, ast.Call) for part in walk(value))
        for part in walk(value)
        if isinstance(part, ast.Name)
    }


def _added(node: ast.AST) -> tuple[str, ast.expr] | None:
    """The name of the table and what is added to one of its entries."""
    match node:
        case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name)), op=ast.Add(), value=value):
            return name, value
        case ast.Assign(
            targets=[ast.Subscript(value=ast.Name(id=name), slice=key)],
            value=ast.BinOp(
                left=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=own), attr="get"), args=[got, ast.Constant(value=start)]
                ),
                op=ast.Add(),
                right=value,
            ),
        ) if own == name and ast.unparse(got) == ast.unparse(key) and start == 0:
            return name, value
    return None


def _adds_to(node: ast.AST, name: str) -> TypeGuard[ast.AugAssign | ast.Assign]:
    added = _added(node)
    return added is not None and added[0] == name


def _starts_entry(node: ast.AST, name: str) -> bool:
    """``if key not in sums: sums[key] = 0.0``"""
    match node:
        case ast.If(
            test=ast.Compare(left=asked, ops=[ast.NotIn()], comparators=[ast.Name(id=own)]),
            body=[ast.Assign(targets=[ast.Subscript(value=ast.Name(id=table), slice=key)], value=value)],
            orelse=[],
        ) if own == table == name:
            return is_number(value) and ast.unparse(asked) == ast.unparse(key)
    return False


def _key_reads(module: ModuleIndex, loop: LoopNode, name: str) -> Iterator[ast.Name]:
    """The uses of a table that see no values."""
    names = (node for node in walk(loop) if isinstance(node, ast.Name) and node.id == name)
    return (node for node in names if gives_keys(module, node))


def _is_table(value: ast.expr) -> bool:
    """``{"loss": 0.0, "kl": 0.0}``, ``{key: 0.0 for key in names}``, ``dict.fromkeys(names, 0.0)``"""
    match value:
        case ast.Dict(values=[_, *_] as values):
            return all(map(is_number, values))
        case ast.DictComp(value=start):
            return is_number(start)
        case ast.Call(func=ast.Attribute(attr="fromkeys", value=ast.Name(id="dict")), args=[_, start]):
            return is_number(start)
    return False


def _is_empty(value: ast.expr) -> bool:
    """``{}``, ``defaultdict(float)``, ``defaultdict(lambda: 0.0)``"""
    match value:
        case ast.Dict(keys=[]):
            return True
        case ast.Call(func=func, args=[ast.Name(id="float" | "int")]):
            return last_name(func) == "defaultdict"
        case ast.Call(func=func, args=[ast.Lambda(body=start)]):
            return last_name(func) == "defaultdict" and is_number(start)
    return False


def _is_row(value: ast.expr) -> bool:
    """``[0.0, 0.0]``, ``[0.0] * 3``."""
    match value:
        case ast.BinOp(op=ast.Mult(), left=ast.List() as row) | (ast.List() as row):
            return bool(row.elts) and all(map(is_number, row.elts))
        case ast.ListComp(elt=element):
            return is_number(element)
    return False


def _read_names(variable: Variable, own: set[ast.stmt]) -> list[ast.Name]:
    """The uses of the variable besides those that add to it."""
    return [
        node
        for node in variable.occurrences() or []
        if isinstance(node.ctx, ast.Load) and variable.statement(node) not in own
    ]
