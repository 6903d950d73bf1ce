"""Lists in a table or an object to which a training step appends what it reads: ``history["loss"].append(...)``,
``self.losses.append(...)``, ``losses[name].append(...)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.workspace.module_index import FUNCTIONS, LoopNode, ModuleIndex, last_name
from gpulint_fixers.edits.statements import insert_after
from gpulint_fixers.waits.deferred_reads import Variable, defer, loops_around
from gpulint_fixers.waits.device_reads import DeviceRead, reads_of
from gpulint_fixers.waits.double_precision import has_doubles
from gpulint_fixers.waits.element_types import is_integer
from gpulint_fixers.waits.lists.device_lists import appends_number, kept_value
from gpulint_fixers.waits.sums.device_sums import exactness


def recorded(
    project: Project, found: HostWait, statement: ast.stmt, loop: LoopNode, target: ast.Subscript | ast.Attribute
) -> Fix | Declined:
    """Keep tensors in the list, and make numbers of them below the loop."""
    reads = reads_of(project, found)
    if isinstance(reads, Declined):
        return reads
    return kept_by_key(project, found.module, statement, loop, target, reads)


def kept_by_key(
    project: Project,
    module: ModuleIndex,
    statement: ast.stmt,
    loop: LoopNode,
    target: ast.Subscript | ast.Attribute,
    reads: list[DeviceRead],
) -> Fix | Declined:
    """Let the list that a table or an object has, to which a statement appends, hold tensors inside of the loop."""
    table, key = (target.value, target.slice) if isinstance(target, ast.Subscript) else (target, None)
    own = isinstance(table, ast.Attribute) and isinstance(table.value, ast.Name) and table.value.id == "self"
    if isinstance(table, ast.Name) and not isinstance(key, ast.Constant):
        return _by_key(project, module, statement, loop, table, reads)
    if not (key is None or isinstance(key, ast.Constant)) or not (own or isinstance(table, ast.Name)):
        return Declined("the list is not one entry of a table")
    name = ast.unparse(table)
    if not starts_as_list(module, name, key):
        return Declined(f"`{ast.unparse(target)}` does not start as an empty list in this module")
    value = appended(project, module, statement, reads)
    if isinstance(value, Declined):
        return value
    if not all(_only_appends(module, use, key, statement) for use in _uses(loop, name)) or (
        own and methods_read(module, loop, table)
    ):
        return Declined(f"`{name}` is read in the loop")
    if any(isinstance(part, ast.Return) for part in walk(loop)):
        return Declined("the loop may return before the list is converted")
    text = module.syntax.text(target)
    below = insert_after(module, loop, f"{text}[:] = map(float, {text})")
    if below is None or loop.orelse:
        return Declined("the loop shares a line with another statement, or has an `else`")
    edits, reasons = value
    description = "; ".join(["keep the values on the GPU and read them after the loop", *reasons])
    return Fix(description, Safety.UNSAFE, (*edits, below))


def appended(
    project: Project, module: ModuleIndex, statement: ast.stmt, reads: list[DeviceRead]
) -> tuple[tuple[Edit, ...], tuple[str, ...]] | Declined:
    """The edits after which a statement appends tensors, and what may differ."""
    match statement:
        case ast.Expr(value=ast.Call(args=[value])):
            exact = exactness(project, module, value, reads)
        case _:
            exact = Declined("")
    if isinstance(exact, Declined):
        return Declined("more is done with the number than listing it")
    if any(is_integer(module, read.tensor) for read in reads):
        return Declined("the list holds integers")
    if not isinstance(value, ast.BinOp):
        return tuple(read.replaced(module, kept_value(read.tensor)) for read in reads), exact.reasons
    doubles = has_doubles(project, module)
    suffix = ".detach().double()" if doubles else ".detach()"
    reasons = exact.reasons if doubles else ("they are computed in the precision of the GPU", *exact.reasons)
    return tuple(read.replaced(module, suffix) for read in reads), reasons


def _by_key(
    project: Project,
    module: ModuleIndex,
    statement: ast.stmt,
    loop: LoopNode,
    table: ast.Name,
    reads: list[DeviceRead],
) -> Fix | Declined:
    """``losses[name].append(loss.item())``"""
    document = project.document(module.path)
    assert document is not None
    variable = Variable(module, document, loop, table.id)
    initial = variable.initial()
    if not initial or not all(map(_holds_lists, initial)):
        return Declined(f"`{table.id}` does not start as a table of empty lists in this function")
    inside = [start for start in initial if variable.is_inside(start)]
    if not all(loops_around(module, start) == loops_around(module, loop) for start in initial if start not in inside):
        return Declined(f"`{table.id}` is not set anew before the loop, which runs several times")
    value = appended(project, module, statement, reads)
    if isinstance(value, Declined):
        return value
    own = {use for use in map(variable.statement, variable.occurrences() or []) if _lists(use, table.id)}
    if not all(variable.is_inside(use) and (use is statement or appends_number(module, use)) for use in own):
        return Declined(f"other statements change the lists of `{table.id}` as well")
    convert = "{{key: [*map(float, values)] for key, values in {}.items()}}"
    if isinstance(start := initial[0], ast.Call):
        convert = f"{ast.unparse(start.func)}(list, {convert})"
    made = defer(project, variable, convert, own=own, in_place=False)
    if isinstance(made, Declined):
        return made
    if made.logs is not None or not made.edits:
        return Declined(f"`{table.id}` is not read once after the loop")
    edits, reasons = value
    description = "; ".join(["keep the values on the GPU and read them after the loop", *reasons])
    return Fix(description, Safety.UNSAFE, (*edits, *made.edits))


def _lists(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append", value=ast.Subscript(value=ast.Name(id=own))))):
            return own == name
    return False


def _holds_lists(value: ast.expr) -> bool:
    """``defaultdict(list)``, ``{"loss": []}``, ``{name: [] for name in names}``"""
    match value:
        case ast.Call(func=func, args=[ast.Name(id="list")], keywords=[]):
            return last_name(func) == "defaultdict"
        case ast.Dict(values=[_, *_] as values):
            return all(map(_is_empty, values))
        case ast.DictComp(value=start):
            return _is_empty(start)
    return False


def _is_empty(value: ast.expr) -> bool:
    return isinstance(value, ast.List) and not value.elts


def _uses(loop: LoopNode, name: str) -> Iterator[ast.expr]:
    """The places of a loop where a table is named."""
    for part in walk(loop):
        if isinstance(part, ast.Name | ast.Attribute) and ast.unparse(part) == name:
            yield part


def _only_appends(module: ModuleIndex, use: ast.expr, key: ast.Constant | None, own: ast.stmt) -> bool:
    """``history["loss"].append(loss.item())``, or anything that another list of the table gets."""
    if key is None:
        up = module.syntax.parents.get(use)
        call = module.syntax.parents.get(up) if isinstance(up, ast.Attribute) else None
        alone = module.syntax.parents.get(call) if isinstance(call, ast.Call) and call.func is up else None
        return isinstance(alone, ast.stmt) and (alone is own or appends_number(module, alone))
    entry = module.syntax.parents.get(use)
    method = module.syntax.parents.get(entry) if isinstance(entry, ast.Subscript) and entry.value is use else None
    call = module.syntax.parents.get(method) if isinstance(method, ast.Attribute) else None
    statement = module.syntax.parents.get(call) if isinstance(call, ast.Call) else None
    match statement, entry:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"))), ast.Subscript(
            slice=ast.Constant(value=other)
        ):
            return other != key.value or statement is own or appends_number(module, statement)
    return False


def starts_as_list(module: ModuleIndex, name: str, key: ast.Constant | None) -> bool:
    """``history["loss"] = []``, ``history = {"loss": []}``, ``history = defaultdict(list)`` or ``losses = []``, and
    nothing else that sets either."""
    found = False
    for node in module.syntax.nodes:
        match node:
            case ast.Assign(targets=targets, value=value) if key is None:
                starts = [start for target in targets for start in _set_to(target, value, name)]
                if not all(start is not None and _is_empty(start) for start in starts):
                    return False
                found = found or bool(starts)
            case _ if key is None:
                pass
            case ast.Assign(targets=[ast.Subscript(value=table, slice=ast.Constant(value=own))], value=value):
                if own == key.value and ast.unparse(table) == name:
                    found = isinstance(value, ast.List) and not value.elts
                    if not found:
                        return False
            case ast.Assign(targets=[table], value=ast.Dict(keys=keys, values=values)) if ast.unparse(table) == name:
                entries = dict(zip((ast.unparse(k) if k else "" for k in keys), values, strict=True))
                start = entries.get(ast.unparse(key))
                found = found or (isinstance(start, ast.List) and not start.elts)
            case ast.Assign(targets=[table], value=ast.Call() as value) if ast.unparse(table) == name:
                found = found or _holds_lists(value)
    return found


def _set_to(target: ast.expr, value: ast.expr, name: str) -> list[ast.expr | None]:
    """The values that an assignment sets a list to, also as one of several: ``self.first, self.second = [], []``; None
    if that is unknown."""
    if ast.unparse(target) == name:
        return [value]
    if not isinstance(target, ast.Tuple | ast.List):
        return []
    if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
        pairs = zip(target.elts, value.elts, strict=True)
        return [start for inner, part in pairs for start in _set_to(inner, part, name)]
    return [None for part in walk(target) if isinstance(part, ast.expr) and ast.unparse(part) == name]


def methods_read(module: ModuleIndex, loop: LoopNode, table: ast.expr) -> bool:
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
