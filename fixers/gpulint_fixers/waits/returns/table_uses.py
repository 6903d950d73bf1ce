"""What a training loop does with a table of tensors that a function returns to it."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit
from gpulint.project import Project
from gpulint.workspace.module_index import LoopNode, ModuleIndex, NodeRef
from gpulint_fixers.edits.places import gives_keys
from gpulint_fixers.edits.statements import insert_above, insert_below
from gpulint_fixers.waits.clocks import clock_above
from gpulint_fixers.waits.deferred_reads import Variable, defer, loops_around
from gpulint_fixers.waits.fix_kinds import READ_ELSEWHERE
from gpulint_fixers.waits.logs.log_intervals import logged_seldom
from gpulint_fixers.waits.returns.tables import Table, key_of
from gpulint_fixers.waits.returns.taken_values import taken


def used(project: Project, site: NodeRef, table: Table, loop: LoopNode | None) -> tuple[Edit, ...] | Declined:
    """Edits below one call, or where the loop uses what it gets."""
    module = site.module
    statement = module.syntax.parents.get(site.node)
    if isinstance(statement, ast.Expr):
        return ()
    name = name_of(statement, table)
    if name is None or not isinstance(statement, ast.Assign):
        return READ_ELSEWHERE
    if name == "_":
        return ()
    document = project.document(module.path)
    assert document is not None
    if loop is not None:
        variable = Variable(module, document, loop, name, entries=table.is_dict, is_whole=not table.other_keys)
        return _in_loop(project, variable, statement, table)
    edit = insert_below(module.syntax, statement, table.convert(name))
    return (edit,) if edit is not None else READ_ELSEWHERE


def name_of(statement: ast.AST | None, table: Table) -> str | None:
    """The variable that gets the table from a call."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) if table.at < 0:
            return name
        case ast.Assign(targets=[ast.Tuple(elts=parts)]) if 0 <= table.at < len(parts):
            part = parts[table.at]
            starred = any(isinstance(one, ast.Starred) for one in parts)
            return part.id if isinstance(part, ast.Name) and not starred else None
    return None


def passed_up(site: NodeRef, table: Table) -> tuple[NodeRef, Table] | None:
    """The function that a call is in and the table as it returns it, if that is all that the function does with it."""
    module, function = site.module, site.module.function(site.node)
    statement = module.syntax.parents.get(site.node)
    if function is None or isinstance(function, ast.Lambda):
        return None
    if isinstance(statement, ast.Return):
        return NodeRef(module, function), replace(table, name="")
    if not isinstance(statement, ast.Assign):
        return None
    name = name_of(statement, table)
    returns = [part for part in walk(function) if isinstance(part, ast.Return) and module.function(part) is function]
    if name is None or name == "_" or len(returns) != 1 or (value := returns[0].value) is None:
        return None
    bindings = module.scope(statement).lookup(name)
    uses = [node for node in module.named.get(name, []) if module.scope(node).lookup(name) is bindings]
    loads = [node for node in uses if isinstance(node.ctx, ast.Load)]
    if len(bindings) != 1 or len(loads) != 1 or len(uses) != 2:
        return None
    if loads[0] is value:
        return NodeRef(module, function), replace(table, at=-1, name=name)
    if isinstance(value, ast.Tuple) and loads[0] in value.elts:
        return NodeRef(module, function), replace(table, at=value.elts.index(loads[0]), name=name)
    return None


def _in_loop(project: Project, variable: Variable, statement: ast.Assign, table: Table) -> tuple[Edit, ...] | Declined:
    """Sums and lists of single values, sums of all of them, and a conversion above what logs the table now and then."""
    module, name = variable.module, variable.name
    nodes = variable.occurrences()
    if nodes is not None and sum(isinstance(node.ctx, ast.Store) for node in nodes) != 1:
        variable = replace(variable, definition=statement)
        nodes = variable.occurrences()
    if nodes is None or any(isinstance(module.syntax.parents.get(node), ast.AugAssign) for node in nodes):
        return Declined(f"`{name}` is set elsewhere as well")
    if not all(variable.is_inside(node) for node in nodes):
        return Declined(f"`{name}` is used after the loop")
    if table.other_keys:
        variable = replace(variable, ignored=frozenset(node for node in nodes if _takes_other(variable, node, table)))
        nodes = [node for node in nodes if node not in variable.ignored]
    edits, own, logged = list[Edit](), set[ast.stmt]({statement}), dict[tuple[ast.AST, str], ast.stmt]()
    last = statement.end_lineno or statement.lineno
    for node in nodes:
        use = variable.statement(node)
        if use is statement:
            continue
        if table.is_dict and gives_keys(module, node):
            own.add(use)
            continue
        if (
            variable.is_whole
            and logged_seldom(project, module, node)
            and (place := module.syntax.place(use)) is not None
        ):
            block = (module.syntax.parents[use], place[0])
            logged[block] = min(logged.get(block, use), use, key=lambda one: one.lineno)
            own.add(use)
            continue
        if not variable.is_whole and not isinstance(_entry(variable, node), ast.Subscript):
            return Declined(f"`{name}` is used as a whole as well")
        made = _taken(project, variable, node, use, table)
        if not isinstance(made, Declined):
            edits += made
            own.add(use)
            last = max(last, use.end_lineno or use.lineno)
    if any(first.lineno < last for first in logged.values()):
        return Declined(f"`{name}` is logged before it is added up")
    for first in _outermost(module, logged):
        above = insert_above(module.syntax, clock_above(project, module, first, last), table.convert(name))
        if above is None:
            return Declined("the statement shares its line with another one")
        edits.append(above)
    rest = defer(project, variable, table.inline, own=own)
    return rest if isinstance(rest, Declined) else (*edits, *rest.edits)


def _entry(variable: Variable, node: ast.Name) -> ast.AST | None:
    """Return what takes an entry of the table by a constant key, else what the whole table is a part of."""
    up = variable.module.syntax.parents.get(node)
    if isinstance(up, ast.Subscript) and up.value is node and isinstance(up.slice, ast.Constant):
        return up
    return None if isinstance(up, ast.Subscript) else up


def _takes_other(variable: Variable, node: ast.Name, table: Table) -> bool:
    """``parts["loss"]``, which is a tensor before and after."""
    entry = _entry(variable, node)
    return isinstance(entry, ast.Subscript) and key_of(entry.slice) in table.other_keys


def _outermost(module: ModuleIndex, logged: dict[tuple[ast.AST, str], ast.stmt]) -> list[ast.stmt]:
    """The first uses in their blocks without those in a part of a statement that is below another such use."""
    return [
        first
        for first in logged.values()
        if not any(
            module.syntax.parents.get(up) is parent
            and place in (module.syntax.place(up) or ())
            and other.lineno <= first.lineno
            and other is not first
            for up in module.syntax.ancestors(first)
            for (parent, place), other in logged.items()
            if isinstance(up, ast.stmt)
        )
    ]


def _taken(
    project: Project, variable: Variable, node: ast.Name, use: ast.stmt, table: Table
) -> tuple[Edit, ...] | Declined:
    """``total += parts["kl"]``, or ``for key, value in parts.items(): sums[key] += value``."""
    module, loop = variable.module, variable.loop
    entry = module.syntax.parents.get(node)
    match entry, use:
        case ast.Subscript(), ast.Assign(targets=[ast.Name(id=name)], value=value) if value is entry:
            held = replace(variable, name=name, definition=use, entries=False, is_whole=True, ignored=frozenset())
            read = defer(project, held, "float({})", own={use}) if not table.is_mixed else READ_ELSEWHERE
            return read if isinstance(read, Declined) else read.edits
        case ast.Call(func=ast.Attribute(attr="append", value=ast.Name(id=rows)), args=[_]), ast.Expr(value=call) if (
            call is entry and table.is_dict
        ):
            return _rows(project, replace(variable, name=rows, entries=False), use, table)
        case ast.Subscript(slice=key, ctx=ast.Load()), _ if entry.value is node:
            values: list[ast.expr] = [entry]
            certain = not table.is_mixed or (isinstance(key, ast.Constant) and key_of(key) not in table.host_keys)
        case ast.Attribute(attr="items"), ast.For(target=ast.Tuple(elts=[ast.Name(), ast.Name(id=name)]), orelse=[]):
            if not (isinstance(use.iter, ast.Call) and use.iter.func is entry):
                return READ_ELSEWHERE
            values = [part for one in use.body for part in walk(one) if isinstance(part, ast.Name) and part.id == name]
            outside = (one for one in module.named.get(name, []) if one not in values and one is not use.target)
            scope = module.scope(use)
            if any(
                module.scope(one) is scope and use not in module.syntax.ancestors(one) and isinstance(one.ctx, ast.Load)
                for one in outside
            ):
                return READ_ELSEWHERE
            certain = not table.is_mixed
        case _:
            return READ_ELSEWHERE
    edits = list[Edit]()
    for value in values:
        made = taken(project, module, loop, variable.statement(value), value, integers=False)
        if isinstance(made, Declined):
            return made
        end = module.syntax.offsets(value)[1]
        if not certain and any(edit.span == module.syntax.span_at(end, end) for edit in made):
            return READ_ELSEWHERE  # a number of the host has no such method
        edits += made
    return tuple(edits)


def _rows(project: Project, variable: Variable, use: ast.stmt, table: Table) -> tuple[Edit, ...] | Declined:
    """``rows.append(parts)``: a list of tables, which hold numbers again after the loop."""
    module, around = variable.module, loops_around(variable.module, variable.loop)
    initial = variable.initial()
    if not initial or not all(isinstance(value, ast.List) and not value.elts for value in initial):
        return Declined(f"`{variable.name}` does not start as an empty list in this function")
    if not all(loops_around(module, value) == around for value in initial):
        return Declined(f"`{variable.name}` is not emptied before the loop, which runs several times")
    row = table.inline.format("row").replace("{", "{{").replace("}", "}}")
    made = defer(project, variable, f"[{row} for row in {{}}]", own={use}, in_place=False)
    if isinstance(made, Declined) or made.logs is not None or not made.edits:
        return Declined(f"`{variable.name}` is read in the loop")
    return made.edits
