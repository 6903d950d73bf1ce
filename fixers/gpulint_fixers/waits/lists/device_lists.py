"""Lists of what a training step computes, kept on the GPU until they are read."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.workspace.module_index import LOOPS, LoopNode, ModuleIndex
from gpulint_fixers.waits.console_reads import may_be_read_in_console
from gpulint_fixers.waits.deferred_reads import Variable, defer, loops_around
from gpulint_fixers.waits.device_reads import DeviceRead, device_read, is_detached, is_torch_tensor, reads_of
from gpulint_fixers.waits.element_types import is_about_loss, is_float, is_integer, is_truth
from gpulint_fixers.waits.lists.concatenated import concatenated
from gpulint_fixers.waits.lists.kept_sizes import is_large
from gpulint_fixers.waits.lists.list_reads import numbers_below, partial_reads, sets_in_loop
from gpulint_fixers.waits.lists.whole_reads import WholeRead, flat_read, operand
from gpulint_fixers.waits.sums.added_kinds import is_whole
from gpulint_fixers.waits.sums.device_sums import exactness
from gpulint_fixers.waits.unread_values import unread

_KEEP = "keep the values on the GPU and read them when they are used"
KEPT_BATCHES = "keep the batches on the GPU and copy them once after the loop; it needs memory for all of them"


def listed(
    project: Project, found: HostWait, statement: ast.stmt, loop: LoopNode, name: str, value: ast.expr
) -> Fix | Declined:
    """``losses.append(loss.item())``: keep tensors, and make numbers of them after the loop."""
    document = project.document(found.module.path)
    assert document is not None
    variable = Variable(found.module, document, loop, name)
    if (without := unread(project, variable, statement)) is not None:
        return without
    reads = reads_of(project, found)
    if isinstance(reads, Declined):
        return reads
    return kept(project, variable, statement, value, reads)


def kept(
    project: Project,
    variable: Variable,
    statement: ast.stmt,
    value: ast.expr,
    reads: list[DeviceRead],
    *,
    integers: bool | None = None,
) -> Fix | Declined:
    """Let the list ``variable``, to which ``value`` is appended, hold tensors inside of the loop.

    ``integers`` says whether the reads are counts or floats, where the value itself does not tell.
    """
    module, tensor = variable.module, reads[0].tensor
    initial = variable.initial()
    if not initial or not all(isinstance(one, ast.List) for one in initial):
        return Declined(f"`{variable.name}` does not start as a list in this function")
    exact = exactness(project, module, value, reads)
    if len(reads) != 1 or isinstance(exact, Declined):
        return Declined("more is done with the number than listing it")
    plain = value is reads[0].whole
    counted = is_integer(module, tensor) if integers is None else integers
    if is_truth(module, tensor) or (counted and not integers and not plain):
        return Declined("the list holds integers or truth values")
    nodes = variable.occurrences() or []
    statements = map(variable.statement, filter(variable.is_inside, nodes))
    changes = {one for one in statements if _changes(one, variable.name)}
    if not all(appends_number(module, one) for one in changes - {statement}):
        return Declined("other statements change the list as well")
    is_known = integers is not None or counted or is_float(module, tensor)
    mixed = any(not is_known or counted is not _gets_integer(module, one) for one in changes - {statement})
    each, own = _numbers(is_known or mixed, counted and plain and not mixed), {statement, *changes}
    if isinstance(made := defer(project, variable, each, own=own), Declined):
        return made
    inside = [node for node in nodes if variable.is_inside(node) and variable.statement(node) not in own]
    if (made.logs is not None or not is_known) and partial_reads(module, inside, each) is None:
        return Declined("the list is read in every step")
    if not is_known and not _holds_tensors_alone(variable, nodes, initial):
        return Declined("the list holds other values as well, which may be integers")
    if isinstance(later := _for_console(variable, nodes, statement, each), Declined):
        return later
    suffix = ".detach()" if isinstance(value, ast.BinOp) else kept_value(tensor)
    edits = (reads[0].replaced(module, suffix), *made.edits, *later)
    reasons = [] if plain else ["they are computed in the precision of the GPU", *exact.reasons]
    reasons += [f"they are logged every {made.logs.every} steps"] if made.logs is not None else []
    description = "; ".join([_KEEP, *(["all of them become floats"] if mixed else []), *reasons])
    certain = is_torch_tensor(project, module, tensor) and is_about_loss(module.syntax.text(tensor))
    is_safe = certain and plain and made.logs is None and not later and not mixed
    return Fix(description, Safety.SAFE if is_safe else Safety.UNSAFE, edits)


def _numbers(is_known: bool, integers: bool) -> str:
    """Return the list of the numbers of tensors, whose kind may be known."""
    number = "int(value)" if integers else "float(value)" if is_known else "value.item()"
    return f"[{number} for value in {{}}]"


def _for_console(
    variable: Variable, nodes: list[ast.Name], statement: ast.stmt, each: str
) -> tuple[Edit, ...] | Declined:
    """Return what makes numbers of a list below all loops, if nothing but the person who runs the script may read it
    there: it may be plotted in the console."""
    if any(not variable.is_inside(node) for node in nodes if isinstance(node.ctx, ast.Load)):
        return ()
    if _is_emptied(variable, nodes):
        return ()
    refused = Declined(f"`{variable.name}` is not read after the loop in this function")
    if not may_be_read_in_console(variable, (statement, *(variable.initial() or ()))):
        return refused
    module = variable.module
    around = [up for up in module.syntax.ancestors(statement) if isinstance(up, LOOPS)]
    below = numbers_below(module, around[-1], variable.name, each, [])
    return (below,) if below is not None else refused


def _is_emptied(variable: Variable, nodes: list[ast.Name]) -> bool:
    """Return whether each round starts the list anew, or the block that reads it does (``recent = []``), so that it
    keeps the values of few steps."""
    parents = variable.module.syntax.parents
    blocks = [parents[variable.statement(node)] for node in nodes if isinstance(node.ctx, ast.Store)]
    reads = [node for node in nodes if isinstance(node.ctx, ast.Load)]
    return any(
        block is variable.loop
        or (variable.is_inside(block) and any(parents[variable.statement(node)] is block for node in reads))
        for block in blocks
    )


def _holds_tensors_alone(variable: Variable, nodes: list[ast.Name], initial: list[ast.expr]) -> bool:
    """Return whether a list starts empty, and gets values in the loop alone."""
    outside = (variable.statement(node) for node in nodes if not variable.is_inside(node))
    filled = any(isinstance(value, ast.List) and value.elts for value in initial)
    return not filled and not any(_changes(one, variable.name) for one in outside)


def kept_value(tensor: ast.expr) -> str:
    """Return what keeps the value of a tensor: a copy, unless it was made just now and nothing else can change it."""
    match tensor:
        case ast.Call(func=ast.Attribute(attr="mean" | "sum" | "norm")):
            return ".detach()"
    return ".detach().clone()"


def _changes(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=attr, value=ast.Name(id=own)))):
            return own == name and attr in ("append", "extend", "insert")
    return False


def _gets_integer(module: ModuleIndex, statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(args=[value])):
            return is_whole(module, value)
    return False


def appends_number(module: ModuleIndex, statement: ast.stmt) -> bool:
    """``losses.append(loss.item())``, perhaps in another branch."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"), args=[value])):
            return _holds_number(module, value)
    return False


def _holds_number(module: ModuleIndex, value: ast.expr) -> bool:
    """``loss.item()``, or one that is scaled."""
    match value:
        case ast.BinOp(left=left, right=right):
            return _holds_number(module, left) or _holds_number(module, right)
        case ast.Call():
            read = device_read(module, value)
            return read is not None and read.whole is value
    return False


def gathered(
    project: Project,
    found: HostWait,
    statement: ast.stmt,
    loop: LoopNode,
    target: ast.Name,
    value: ast.expr,
    *,
    rows: bool,
) -> Fix | Declined:
    """``labels.extend(y.cpu().numpy())``: keep the batches on the GPU, and copy them once the loop has ended.

    ``rows`` says that the list gets each row by itself.
    """
    module, (read, shape) = found.module, flat_read(value)
    if read is None or (rows and "numpy" not in read.steps and "tolist" not in read.steps):
        return Declined("more is done with the values than listing them")
    if not rows and _is_of_inner_loop(module, statement, loop, read.tensor):
        return Declined("the inner loop would make as many copies later")
    made = after_loop(project, found, statement, loop, target, read, rows=rows)
    if not isinstance(made, tuple):
        return made
    kept = f"{target.id}.append({kept_batch(module, loop, read.tensor)}{shape})"
    return Fix(KEPT_BATCHES, Safety.UNSAFE, (Edit(module.path, module.syntax.span(statement), kept), *made))


def after_loop(
    project: Project,
    found: HostWait,
    statement: ast.stmt,
    loop: LoopNode,
    target: ast.Name,
    read: WholeRead,
    *,
    rows: bool,
) -> tuple[Edit, ...] | Fix | Declined:
    """The edits that copy what a list has gathered once the loop has ended; a fix where nothing reads the list."""
    module, document = found.module, project.document(found.module.path)
    assert document is not None
    variable = Variable(module, document, loop, target.id)
    if (without := unread(project, variable, statement)) is not None:
        return without
    if is_large(module, read.tensor, target.id):
        return Declined("all that the loop lists may be too much to keep on the GPU")
    initial = variable.initial()
    if not initial or not all(isinstance(value, ast.List) and not value.elts for value in initial):
        return Declined(f"`{target.id}` does not start as an empty list in this function")
    if not all(loops_around(module, value) == loops_around(module, loop) for value in initial):
        return Declined(f"`{target.id}` is not emptied before the loop, which runs several times")
    if not rows and (joined := concatenated(project, variable, statement, read.steps)) is not None:
        return joined
    convert = (
        f"[row for batch in {{}} for row in batch{read.text}]" if rows else f"[batch{read.text} for batch in {{}}]"
    )
    made = defer(project, variable, convert, own={statement}, in_place=False)
    if isinstance(made, Declined):
        return made
    if made.logs is not None:
        return Declined(f"`{target.id}` is read in every step")
    if not made.edits:
        return Declined(f"`{target.id}` is not read once after the loop")
    if sets_in_loop(module, loop, made.edits, target.id):
        return Declined(f"`{target.id}` is read in the loop, which fills it further")
    return (*made.edits, *_of_any(module, initial))


def _of_any(module: ModuleIndex, initial: list[ast.expr]) -> list[Edit]:
    """``preds: list = []`` for ``preds: list[int] = []``, which the loop fills with tensors."""
    starts = (module.syntax.parents.get(value) for value in initial)
    return [
        Edit(module.path, module.syntax.span(start.annotation), module.syntax.text(start.annotation.value))
        for start in starts
        if isinstance(start, ast.AnnAssign) and isinstance(start.annotation, ast.Subscript)
    ]


def _is_of_inner_loop(module: ModuleIndex, statement: ast.stmt, loop: LoopNode, tensor: ast.expr) -> bool:
    """Return whether a tensor is a part that an inner loop of the step chooses."""
    names = {part.id for part in walk(tensor) if isinstance(part, ast.Name)}
    for up in module.syntax.ancestors(statement):
        if up is loop:
            break
        if isinstance(up, ast.For) and names & {part.id for part in walk(up.target) if isinstance(part, ast.Name)}:
            return True
    return False


def kept_batch(module: ModuleIndex, loop: LoopNode, tensor: ast.expr) -> str:
    """Return what keeps the values of a batch on the GPU."""
    detached = "" if is_detached(tensor) or isinstance(tensor, ast.Compare) else ".detach()"
    return f"{operand(module, tensor)}{detached}{'' if is_fresh(module, loop, tensor) else '.clone()'}"


def is_fresh(module: ModuleIndex, loop: LoopNode, tensor: ast.expr) -> bool:
    """Return whether a tensor is made anew in each step, and nothing changes it in place."""
    taken = tensor.value if isinstance(tensor, ast.Subscript) else tensor
    if isinstance(taken, ast.Call | ast.BinOp | ast.Compare | ast.UnaryOp):
        return True
    if not isinstance(tensor, ast.Name):
        return False
    stored = False
    for part in walk(loop):
        match part:
            case ast.Name(id=name, ctx=ast.Store()) if name == tensor.id:
                stored = True
            case ast.AugAssign(target=ast.Name(id=name)) if name == tensor.id:
                return False
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()) if name == tensor.id:
                return False
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if name == tensor.id:
                if attr.endswith("_"):
                    return False
    return stored
