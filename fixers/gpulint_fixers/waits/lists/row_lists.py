"""Lists that get each row of a batch by itself, in an inner loop: one copy of the batch brings all of them."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import Binding, LoopNode, ModuleIndex
from gpulint_fixers.waits.lists.device_lists import KEPT_BATCHES, after_loop, kept_batch
from gpulint_fixers.waits.lists.whole_reads import WholeRead, operand, whole_read
from gpulint_fixers.waits.single_tensors import is_single_tensor

_SAME = "each of the tensors has to have as many rows as the loop has rounds"


@dataclass(frozen=True, slots=True)
class _Append:
    """``rows.append(batch[i].cpu().numpy())``: the list, and the read of the whole batch."""

    statement: ast.stmt
    target: ast.Name
    read: WholeRead


@dataclass(frozen=True, slots=True)
class _Rounds:
    """The inner loop, which does nothing else."""

    loop: ast.For
    appends: tuple[_Append, ...]
    rests_on_sizes: bool
    """Whether more than one tensor has to have as many rows."""


def gathered_rows(project: Project, found: HostWait, loop: LoopNode) -> Fix | Declined | None:
    """Keep whole batches on the GPU, and copy them once the loop has ended; None for other statements."""
    rounds = _rounds(found)
    if rounds is None:
        return None
    edits, lines = list[Edit](), list[str]()
    for one in rounds.appends:
        made = after_loop(project, found, one.statement, loop, one.target, one.read, rows=True)
        if not isinstance(made, tuple):
            return made if isinstance(made, Declined) else Declined("nothing reads one of the lists")
        edits += made
        lines.append(f"{one.target.id}.append({kept_batch(found.module, loop, one.read.tensor)})")
    return Fix(_described(KEPT_BATCHES, rounds), Safety.UNSAFE, (_replaced(found.module, rounds, lines), *edits))


def extended(found: HostWait) -> Fix | None:
    """``rows.extend(batch.cpu().numpy())`` instead of a loop over the rows; None for other statements."""
    rounds = _rounds(found)
    if rounds is None or not all(_is_list(found.module, one.target) for one in rounds.appends):
        return None
    lines = [
        f"{one.target.id}.extend({operand(found.module, one.read.tensor)}"
        f"{''.join(_written(step) for step in one.read.steps)})"
        for one in rounds.appends
    ]
    description = _described("copy the whole batch to the host once instead of row by row", rounds)
    return Fix(description, Safety.UNSAFE, (_replaced(found.module, rounds, lines),))


def _is_list(module: ModuleIndex, target: ast.Name) -> bool:
    """Return whether a variable is certainly a list, which can be extended."""
    bound = reaching(module, module.scope(target).lookup(target.id), target)
    made = list[ast.expr | None]()
    for one in bound:
        match one:
            case Binding(path=(int(at),), value=ast.Tuple(elts=parts)) if at < len(parts):
                made.append(parts[at])
            case Binding(path=()):
                made.append(one.value)
            case _:
                made.append(None)
    return bool(made) and all(
        isinstance(value, ast.List | ast.ListComp)
        or (isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("list", "deque"))
        for value in made
    )


def _described(what: str, rounds: _Rounds) -> str:
    return f"{what}; {_SAME}" if rounds.rests_on_sizes else what


def _written(step: str) -> str:
    return ".data" if step == "data" else f".{step}()"


def _replaced(module: ModuleIndex, rounds: _Rounds, lines: list[str]) -> Edit:
    """The edit that puts lines in the place of the inner loop."""
    indent = " " * rounds.loop.col_offset
    return Edit(module.path, module.syntax.span(rounds.loop), f"\n{indent}".join(lines))


def _rounds(found: HostWait) -> _Rounds | None:
    """The inner loop around a statement, if it only lists rows of tensors."""
    module, inner = found.module, found.module.syntax.parents.get(found.statement)
    if not isinstance(inner, ast.For) or inner is found.context.loop.node or inner.orelse:
        return None
    sources = _sources(module, inner)
    appends = list[_Append]()
    for statement in inner.body:
        match statement:
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(attr="append", value=ast.Name() as target), args=[value], keywords=[])
            ):
                read = _whole(module, inner, value, sources)
                if read is None:
                    return None
                appends.append(_Append(statement, target, read))
            case _:
                return None
    lists = {one.target.id for one in appends}
    if len(lists) < len(appends) or _is_used_after(module, inner):
        return None
    tensors = {one.read.tensor.id for one in appends if isinstance(one.read.tensor, ast.Name)}
    sized = {module.syntax.text(source) for source in sources.values()} if sources else _sized(module, inner)
    if not sized or tensors & lists:
        return None
    return _Rounds(inner, tuple(appends), rests_on_sizes=len(sized | tensors) > 1)


def _sources(module: ModuleIndex, inner: ast.For) -> dict[str, ast.Name]:
    """The tensors that a loop goes through, by the names of their rows: ``for x, y in zip(inputs, labels)``."""
    match inner.target, inner.iter:
        case ast.Name(id=row), ast.Name() as tensor:
            return {row: tensor}
        case ast.Tuple(elts=rows), ast.Call(func=ast.Name(id="zip"), args=tensors, keywords=[]) if len(rows) == len(
            tensors
        ):
            pairs = list(zip(rows, tensors, strict=True))
            found = {row.id: one for row, one in pairs if isinstance(row, ast.Name) and isinstance(one, ast.Name)}
            return found if len(found) == len(pairs) else {}
    return {}


def _sized(module: ModuleIndex, inner: ast.For) -> set[str]:
    """The tensor that has as many rows as a loop has rounds: ``range(len(batch))``, ``range(batch.size(0))``."""
    match inner.target, inner.iter:
        case ast.Name(), ast.Call(func=ast.Name(id="range"), args=[count], keywords=[]):
            return _counted(module, count)
    return set()


def _counted(module: ModuleIndex, count: ast.expr, depth: int = 0) -> set[str]:
    match count:
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
            return {name}
        case ast.Call(func=ast.Attribute(attr="size", value=ast.Name(id=name)), args=[ast.Constant(value=0)]):
            return {name}
        case ast.Subscript(value=ast.Attribute(attr="shape", value=ast.Name(id=name)), slice=ast.Constant(value=0)):
            return {name}
        case ast.Name() if not depth:
            bound = reaching(module, module.scope(count).lookup(count.id), count)
            values = [one.value for one in bound if not one.path and one.value is not None]
            return _counted(module, values[0], 1) if len(values) == len(bound) == 1 else set()
    return set()


def _whole(module: ModuleIndex, inner: ast.For, value: ast.expr, sources: dict[str, ast.Name]) -> WholeRead | None:
    """The read of a whole tensor of which a value is the read of one row."""
    item = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "item"
    if item and not value.args:  # type: ignore[attr-defined]
        read = WholeRead(value, value.func.value, ("tolist",))  # type: ignore[attr-defined]
    elif (whole := whole_read(value)) is not None and {"numpy", "tolist"}.intersection(whole.steps):
        read = whole
    else:
        return None
    match read.tensor:
        case ast.Name(id=name) if name in sources:
            tensor = sources[name]
        case ast.Subscript(value=ast.Name() as tensor, slice=ast.Name(id=index)):
            if not isinstance(inner.target, ast.Name) or index != inner.target.id or sources:
                return None
        case _:
            return None
    return WholeRead(read.whole, tensor, read.steps) if is_single_tensor(module, tensor) else None


def _is_used_after(module: ModuleIndex, inner: ast.For) -> bool:
    """Return whether something below a loop may use a variable that it sets, as far as names tell."""
    names = {part.id for part in walk(inner.target) if isinstance(part, ast.Name)}
    inside, function = set(walk(inner)), module.function(inner)
    return any(
        isinstance(node.ctx, ast.Load)
        and node not in inside
        and module.function(node) is function
        and any(one.node is inner for one in reaching(module, module.scope(node).lookup(name), node))
        for name in names
        for node in module.named.get(name, [])
    )
