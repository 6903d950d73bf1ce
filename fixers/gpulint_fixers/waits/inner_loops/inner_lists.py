"""Numbers that an inner loop of a step collects: norms of gradients, losses of several heads."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Edit, Fix, Safety
from gpulint.project import Project
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_fixers.edits.calls import WIDTH
from gpulint_fixers.edits.statements import insert_after
from gpulint_fixers.edits.structural import indentation_step
from gpulint_fixers.waits.device_reads import DeviceRead
from gpulint_fixers.waits.element_types import is_about_loss
from gpulint_fixers.waits.inner_loops.clamped_factors import without_tests
from gpulint_fixers.waits.inner_loops.counted_tables import tabled
from gpulint_fixers.waits.inner_loops.numbers_above import is_read_again, read_above

_REDUCES = frozenset({"norm", "mean", "sum", "max", "min", "std", "var", "clip_grad_norm_", "vector_norm"})
_NARROW = 79
"""Most characters of a line that all style guides accept."""
_ONE_TYPE = "they have to be of one type, on one device"


def collected(
    project: Project, found: HostWait, inner: ast.For | ast.expr, reads: list[DeviceRead], torch: str
) -> Fix | None:
    """Collect tensors, and read all of them at once; None for loops that do something else."""
    module = found.module
    if len(reads) != 1:
        return None
    if isinstance(inner, ast.ListComp):
        return _comprehension(module, inner, reads[0], torch)
    if not isinstance(inner, ast.For) or inner.orelse:
        return None
    if (made := tabled(found, inner, torch)) is not None:
        return made
    match found.statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append", value=ast.Name(id=name)), args=[value])):
            tests = without_tests(project, module, inner, reads[0].whole) if value is reads[0].whole else None
            return None if tests is None else _appended(module, inner, name, reads[0], torch, tests)
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=ast.Name() as key)], value=value):
            if value is reads[0].whole and found.statement in inner.body:
                return _overwritten(module, inner, name, key, reads[0], torch)
    return None


def is_number(tensor: ast.expr, sources: Iterable[tuple[ast.expr, ast.expr]] = ()) -> bool:
    """Return whether a tensor has no dimensions, as far as the code tells: a norm, a loss, or one of a list of such."""
    name = ast.unparse(tensor)
    if any(
        ast.unparse(target) == name and isinstance(source, ast.Name) and is_number(source) for target, source in sources
    ):
        return True
    match tensor:
        case ast.Call(func=ast.Attribute(attr=name), keywords=keywords) if name in _REDUCES:
            return not any(keyword.arg in ("dim", "axis") for keyword in keywords)
        case ast.BinOp(left=left, right=right):
            parts = [part for part in (left, right) if not isinstance(part, ast.Constant)]
            return bool(parts) and all(map(_is_reduced, parts))
        case ast.Name() | ast.Subscript() | ast.Attribute():
            return is_about_loss(ast.unparse(tensor)) or "norm" in ast.unparse(tensor).lower()
        case ast.Call(func=func):
            return is_about_loss(last_name(func)) or last_name(func) == "criterion"
    return False


def _is_reduced(part: ast.expr) -> bool:
    """``2 * (p * t).sum() + 1e-6``"""
    match part:
        case ast.BinOp():
            return is_number(part)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[_], keywords=[]):
            return name in _REDUCES
        case ast.Call(func=ast.Attribute(attr=name), args=[], keywords=[]):
            return name in _REDUCES
    return False


def _comprehension(module: ModuleIndex, inner: ast.ListComp, read: DeviceRead, torch: str) -> Fix | None:
    """``[p.grad.norm().item() for p in parameters]``"""
    tests = [test for generator in inner.generators for test in generator.ifs]
    sources = [(one.target, one.iter) for one in inner.generators]
    if inner.elt is not read.whole or not is_number(read.tensor, sources) or not all(map(_is_usual, tests)):
        return None
    full = not tests and all(_is_never_empty(one.iter) for one in inner.generators)
    same = _same_tensors(module, inner, read)
    below = None if full else _read_below(module, inner, torch)
    if below is not None:
        kept = read.replaced(module, "") if same is None else Edit(module.path, module.syntax.span(inner), same)
        edits: tuple[Edit, ...] | None = (kept, *below)
    else:
        edits = None if tests else _read_inline(module, inner, read, torch, same)
    if edits is None:
        return None
    some = "" if full or below else ", and there has to be at least one"
    description = f"read the values in one copy instead of one by one; {_ONE_TYPE}{some}"
    return Fix(description, Safety.UNSAFE, edits)


def _copies_list(inner: ast.ListComp, read: DeviceRead) -> bool:
    """``[loss.item() for loss in losses]``"""
    match inner.generators:
        case [ast.comprehension(target=ast.Name(id=name), ifs=[])]:
            return ast.unparse(read.tensor) == name
    return False


def _same_tensors(module: ModuleIndex, inner: ast.ListComp, read: DeviceRead) -> str | None:
    """``list(losses)`` for ``[loss.item() for loss in losses]``, whose tensors are those of another list."""
    if not _copies_list(inner, read):
        return None
    source, syntax = inner.generators[0].iter, module.syntax
    (start, end), (first, stop) = syntax.offsets(inner), syntax.offsets(source)
    around = (*syntax.source.text[start:first].splitlines(), *syntax.source.text[stop:end].splitlines())
    kept = [f"  #{comment}\n" for _, mark, comment in (line.partition("#") for line in around) if mark]
    text = syntax.text(source) + "".join(kept)
    return text if isinstance(source, ast.List | ast.Tuple) else f"list({text})"


def _read_below(module: ModuleIndex, inner: ast.ListComp, torch: str) -> tuple[Edit, ...] | None:
    """``norms = torch.stack(norms).tolist() if norms else []`` below ``norms = [...]``, for ``torch.stack`` takes no
    empty list; None where the list has no name."""
    match module.syntax.parents.get(inner):
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) as statement:
            below = insert_after(module, statement, _read_of_all(name, torch))
            return None if below is None else (below,)
    return None


def _read_of_all(name: str, torch: str, *, full: bool = False) -> str:
    return f"{name} = {torch}.stack({name}).tolist()" + ("" if full else f" if {name} else []")


def _read_inline(
    module: ModuleIndex, inner: ast.ListComp, read: DeviceRead, torch: str, same: str | None
) -> tuple[Edit, ...] | None:
    syntax = module.syntax
    start, end = syntax.offsets(inner)
    line = syntax.source.line(inner.lineno)
    own = len(syntax.text(read.tensor)) - len(syntax.text(read.whole))
    more = len(f"{torch}.stack().tolist()") + (own if same is None else len(same) - (end - start))
    before = after = ""
    if inner.lineno == inner.end_lineno and len(line) + more > max(syntax.source.width, WIDTH):
        statement = syntax.parents.get(inner)
        if not isinstance(statement, ast.Assign) or line[inner.end_col_offset :].strip():
            return None
        indent = line[: len(line) - len(line.lstrip())]
        before, after = f"\n{indent}{indentation_step(syntax, statement)}", f"\n{indent}"
    if same is not None:
        return (Edit(module.path, syntax.span(inner), f"{torch}.stack({before}{same}{after}).tolist()"),)
    return (
        read.replaced(module, ""),
        Edit(module.path, syntax.span_at(start, start), f"{torch}.stack({before}"),
        Edit(module.path, syntax.span_at(end, end), f"{after}).tolist()"),
    )


def _is_usual(test: ast.expr) -> bool:
    """``p.grad is not None``, ``p.requires_grad``, which a model's parameters meet unless they are frozen."""
    match test:
        case ast.Compare(left=ast.Attribute(attr="grad"), ops=[ast.IsNot()]) | ast.Attribute(attr="requires_grad"):
            return True
    return False


def _appended(
    module: ModuleIndex, loop: ast.For, name: str, read: DeviceRead, torch: str, tests: tuple[Edit, ...]
) -> Fix | None:
    """``norms.append(p.grad.norm().item())`` for a list that is empty before the loop."""
    place, parent = module.syntax.place(loop), module.syntax.parents.get(loop)
    if place is None or parent is None or not is_number(read.tensor):
        return None
    above: list[ast.stmt] = getattr(parent, place[0])[: place[1]]
    if not any(_is_empty_list(one, name) for one in above[-3:]):
        return None
    if sum(isinstance(part, ast.Name) and part.id == name for part in walk(loop)) != 1:
        return None
    left = any(isinstance(part, ast.Continue | ast.Break) for part in walk(loop))
    always = not left and any(one is read.whole for part in loop.body for one in _given(part))
    after = insert_after(module, loop, _read_of_all(name, torch, full=always and _is_never_empty(loop.iter)))
    if after is None:
        return None
    clamped = ", and clamp the factor instead of testing it" if tests else ""
    return Fix(
        f"collect the tensors and read them in one copy after the loop{clamped}; {_ONE_TYPE}",
        Safety.UNSAFE,
        (read.replaced(module, _detached(read)), *tests, after),
    )


def _given(statement: ast.stmt) -> list[ast.expr]:
    """The arguments of the call that a statement is: it runs in each round if it is in the loop's own body."""
    return statement.value.args if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) else []


def _is_empty_list(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id=own)], value=ast.List(elts=[])):
            return own == name
    return False


def _is_never_empty(source: ast.expr) -> bool:
    """Return whether a loop goes through all parameters of a model, which are never none, or a list of some values;
    not through parameters that are picked (``filter(lambda p: p.requires_grad, model.parameters())``)."""
    match source:
        case ast.Call(func=ast.Attribute(attr="parameters" | "named_parameters")):
            return True
        case ast.Call(func=ast.Name(id="list" | "tuple" | "enumerate" | "reversed"), args=[inner, *_]):
            return _is_never_empty(inner)
        case ast.List(elts=values) | ast.Tuple(elts=values):
            return any(not isinstance(value, ast.Starred) for value in values)
    return False


def _detached(read: DeviceRead) -> str:
    return "" if "grad" in ast.unparse(read.tensor) else ".detach()"


def _overwritten(
    module: ModuleIndex, loop: ast.For, name: str, key: ast.Name, read: DeviceRead, torch: str
) -> Fix | None:
    """``log_vars[name] = value.item()`` for all entries of the table that the loop goes through."""
    match loop.iter, loop.target:
        case ast.Call(func=ast.Attribute(value=ast.Name() as table, attr="items")), ast.Tuple(
            elts=[ast.Name() as own, *_]
        ):
            if table.id != name or own.id != key.id:
                return None
        case _:
            return None
    if sum(isinstance(part, ast.Name) and part.id == name for part in walk(loop)) != 2:
        return None
    lines = _table_read(module, loop, name, torch)
    if max(map(len, lines)) > max(module.syntax.source.width, WIDTH):
        return None
    if is_read_again(module, loop, read):
        edits = read_above(module, loop, read, "\n".join(lines))
        where = "before the loop, whose rounds use the numbers"
    else:
        after = insert_after(module, loop, "\n".join(lines))
        edits, where = None if after is None else (read.replaced(module, ".detach()"), after), "after the loop"
    if edits is None:
        return None
    return Fix(f"read the values of the table in one copy {where}; {_ONE_TYPE}", Safety.UNSAFE, edits)


def _table_read(module: ModuleIndex, loop: ast.For, name: str, torch: str) -> list[str]:
    """The lines that read all entries of a table, indented as the loop is from the second one on."""
    lead = module.syntax.source.line(loop.lineno)[: loop.col_offset]
    full = _has_entry(module, loop, name)  # `torch.stack` takes no empty list
    inner = "" if full else indentation_step(module.syntax, loop)
    lines = [f"{name}.update(zip({name}, {torch}.stack(list({name}.values())).tolist()))"]
    parts = [*walk(module.function(loop) or module.syntax.tree)]
    used = {getattr(part, "id", getattr(part, "arg", "")) for part in parts if isinstance(part, ast.Name | ast.arg)}
    own = next((one for one in ("values", "numbers") if one not in used), None)
    if own is not None and len(lead) + len(inner) + len(lines[0]) > _NARROW:
        lines = [f"{own} = {torch}.stack(list({name}.values())).tolist()", f"{name}.update(zip({name}, {own}))"]
    lines = lines if full else [f"if {name}:", *(f"{inner}{line}" for line in lines)]
    return [lines[0], *(f"{lead}{line}" for line in lines[1:])]


def _has_entry(module: ModuleIndex, loop: ast.For, name: str) -> bool:
    """Return whether a statement above a loop, in the same block, gives a table an entry: ``terms["sum"] = total``."""
    place, parent = module.syntax.place(loop), module.syntax.parents.get(loop)
    above: list[ast.stmt] = getattr(parent, place[0])[: place[1]] if place is not None else []
    for statement in reversed(above):
        match statement:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=own))]) if own == name:
                return True
            case ast.Assign(targets=[ast.Name(id=own)], value=value) if own == name:
                return isinstance(value, ast.Dict) and any(value.keys)
    return False
