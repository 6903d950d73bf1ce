"""Rows that an inner loop draws one by one (``x[torch.multinomial(w[b], 1).item()]``) and stacks: one draw for all rows
and one index need no wait."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Edit, Fix, Safety
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, last_name
from gpulint_fixers.edits.statements import remove_statement, without_gaps


@dataclass(frozen=True, slots=True)
class _Draws:
    """A loop that draws one index per row of ``weights``, and appends what it indexes to lists."""

    loop: ast.For
    index: ast.Name
    draw: ast.Call
    weights: ast.expr
    appends: dict[str, ast.Call]
    """The calls by the names of the lists."""

    @property
    def made(self) -> dict[str, str]:
        """What each list becomes: the tensor that is indexed."""
        return {name: ast.unparse(call.args[0].value) for name, call in self.appends.items()}  # type: ignore[attr-defined]


def drawn_together(project: Project, found: HostWait) -> Fix | None:
    """Draw for all rows at once where each list is only filled by such loops and stacked; None for other loops."""
    module, function = found.module, found.module.function(found.statement)
    if function is None or isinstance(function, ast.Lambda):
        return None
    known = [one for part in walk(function) if (one := _draws(project, module, part)) is not None]
    taken = [one for one in known if found.statement is one.loop.body[0]]
    edits = dict[Edit, None]()
    lists = set[str]()
    for one in taken:  # grows by the loops that fill the same lists
        for name in one.appends:
            if name in lists:
                continue
            lists.add(name)
            removed = _without_list(project, module, function, known, name)
            if removed is None:
                return None
            edits |= dict.fromkeys(removed)
            taken += (other for other in known if name in other.appends and other not in taken)
    if not taken or any("#" in module.syntax.text(one.loop) for one in taken):
        return None
    edits |= {_replaced(module, one): None for one in taken}
    return Fix(
        "draw the indices of all rows at once and index once, without a wait; the random numbers differ",
        Safety.UNSAFE,
        tuple(without_gaps(module.syntax.source, edits)),
    )


def _draws(project: Project, module: ModuleIndex, loop: ast.AST) -> _Draws | None:
    match loop:
        case ast.For(
            target=ast.Name(id=row),
            iter=ast.Call(func=ast.Name(id="range"), args=[_], keywords=[]),
            body=[ast.Assign(targets=[ast.Name() as index], value=value), *rest],
            orelse=[],
        ):
            draw = _drawn(value)
        case _:
            return None
    appends = {name: call for name, call in map(_appended, rest) if call is not None and _indexes(call, index.id)}
    if draw is None or not appends or len(appends) < len(rest):
        return None
    if not project.fact(Resolver).names(module, draw.func) & {"torch.multinomial"}:
        return None
    match draw.args[0]:
        case ast.Subscript(value=weights, slice=ast.Name(id=name)) if name == row:
            one = _Draws(loop, index, draw, weights, appends)
            return one if _stands_alone(module, one, row) else None
    return None


def _drawn(value: ast.expr) -> ast.Call | None:
    """``torch.multinomial(w[b], 1).item()``"""
    match value:
        case ast.Call(func=ast.Name(id="int"), args=[ast.Call() as inner], keywords=[]):
            return _drawn(inner) or _one_draw(inner)
        case ast.Call(func=ast.Attribute(value=ast.Call() as draw, attr="item"), args=[], keywords=[]):
            return _one_draw(draw)
    return None


def _one_draw(call: ast.Call) -> ast.Call | None:
    match call:
        case ast.Call(args=[_, ast.Constant(value=1)], keywords=[]):
            return call
        case ast.Call(args=[_], keywords=[ast.keyword(arg="num_samples", value=ast.Constant(value=1))]):
            return call
    return None


def _appended(statement: ast.stmt) -> tuple[str, ast.Call | None]:
    match statement:
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[_], keywords=[]) as call
        ):
            return name, call
    return "", None


def _indexes(call: ast.Call, index: str) -> bool:
    """``negatives.append(x[index])``"""
    match call:
        case ast.Call(args=[ast.Subscript(value=ast.Name() | ast.Attribute(), slice=ast.Name(id=name))]):
            return name == index
    return False


def _stands_alone(module: ModuleIndex, one: _Draws, row: str) -> bool:
    """Return whether what the loop reads is the same in all rounds, and its variables are used in it alone."""
    sources = [one.weights, *(call.args[0].value for call in one.appends.values())]  # type: ignore[attr-defined]
    named = {part.id for source in sources for part in walk(source) if isinstance(part, ast.Name)}
    if named & {row, one.index.id, *one.appends} or any(_is_list(module, source) for source in sources):
        return False
    inside = set(walk(one.loop))
    bound = {one.loop, one.loop.target, one.loop.body[0], one.index}
    return not any(
        node not in inside
        and isinstance(node.ctx, ast.Load)
        and any(binding.node in bound for binding in reaching(module, module.scope(node).lookup(name), node))
        for name in (row, one.index.id)
        for node in module.named.get(name, [])
    )


def _is_list(module: ModuleIndex, source: ast.expr) -> bool:
    """Return whether the code says that a value is a list, which takes no tensor of indices."""
    if not isinstance(source, ast.Name):
        return False
    values = [binding.value for binding in module.scope(source).lookup(source.id) if not binding.path]
    return any(
        isinstance(value, ast.List | ast.ListComp | ast.Tuple | ast.Dict)
        or (isinstance(value, ast.Call) and last_name(value.func) in ("list", "tuple", "dict", "split", "chunk"))
        for value in values
    )


def _without_list(
    project: Project, module: ModuleIndex, function: FunctionNode, known: list[_Draws], name: str
) -> list[Edit] | None:
    """Remove the empty lists of a name and the stacks; None if something else uses them."""
    bindings = module.scope(function.body[0]).lookup(name)
    empty = {binding.node: binding for binding in bindings if _is_empty(binding.value) and not binding.path}
    filled = {call.func.value: one for one in known if (call := one.appends.get(name))}  # type: ignore[attr-defined]
    gone, loops = dict[ast.stmt, None](), dict[ast.AST, ast.AST]()
    for node in module.named.get(name, []):
        if not isinstance(node.ctx, ast.Load) or module.scope(node).lookup(name) is not bindings:
            continue
        lists = [one.node for one in reaching(module, bindings, node) if one.node in empty]
        if not lists:
            continue
        if len(lists) < len(reaching(module, bindings, node)):
            return None
        if (one := filled.get(node)) is not None:
            made = _statement(module, lists[0])
            if len(lists) > 1 or lists[0] in loops or not _is_above(module, made, one.loop):
                return None
            loops[lists[0]] = one.loop
            gone[made] = None
        elif (stack := _stacked(project, module, node)) is not None:
            gone[stack] = None
        else:
            return None
    removals = [remove_statement(module.syntax, statement) for statement in gone]
    edits = [edit for edit in removals if edit is not None and not edit.text]
    stacks = len(gone) > len(loops) == len(empty) == len(filled)
    return edits if stacks and len(edits) == len(removals) else None


def _is_empty(value: ast.expr | None) -> bool:
    return isinstance(value, ast.List) and not value.elts


def _statement(module: ModuleIndex, node: ast.AST) -> ast.stmt:
    return next(up for up in (node, *module.syntax.ancestors(node)) if isinstance(up, ast.stmt))


def _is_above(module: ModuleIndex, statement: ast.stmt, loop: ast.For) -> bool:
    """Return whether a statement is ``name = []``, above the loop in the same block."""
    here, there = module.syntax.place(statement), module.syntax.place(loop)
    same = module.syntax.parents.get(statement) is module.syntax.parents.get(loop)
    plain = isinstance(statement, ast.Assign) and len(statement.targets) == 1
    return plain and same and here is not None and there is not None and here[0] == there[0] and here[1] < there[1]


def _stacked(project: Project, module: ModuleIndex, node: ast.Name) -> ast.stmt | None:
    """The statement ``negatives = torch.stack(negatives, dim=0)``."""
    call = module.syntax.parents.get(node)
    match call:
        case ast.Call(args=[_], keywords=[] | [ast.keyword(arg="dim", value=ast.Constant(value=0))]):
            pass
        case ast.Call(args=[_, ast.Constant(value=0)], keywords=[]):
            pass
        case _:
            return None
    match up := module.syntax.parents.get(call):
        case ast.Assign(targets=[ast.Name(id=name)]) if name == node.id:
            return up if project.fact(Resolver).names(module, call.func) & {"torch.stack"} else None
    return None


def _replaced(module: ModuleIndex, one: _Draws) -> Edit:
    syntax = module.syntax
    (start, _), (_, end) = (syntax.offsets(node) for node in (one.draw.args[0], one.draw))
    rest = syntax.source.text[syntax.offsets(one.draw.args[0])[1] : end]
    head = syntax.source.text[syntax.offsets(one.draw)[0] : start]
    lines = [f"{one.index.id} = {head}{syntax.text(one.weights)}{rest}.squeeze(1)"]
    lines += (f"{name} = {tensor}[{one.index.id}]" for name, tensor in one.made.items())
    first = syntax.offsets(one.loop)[0]
    line, column = syntax.source.position(first)
    indent = syntax.source.line(line)[: column - 1]
    return Edit(module.path, syntax.span_at(first, syntax.offsets(one.loop)[1]), f"\n{indent}".join(lines))
