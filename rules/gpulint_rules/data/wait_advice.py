"""What to do about a wait of the host, by what the program does with the value."""

from __future__ import annotations

import ast
import re
from itertools import takewhile

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.sync_points import SyncKind, SyncPoint, is_index_read
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContext
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import ModuleIndex, dotted, last_name
from gpulint_rules.data.choosing_tests import chooses, counts, filters, is_of_element
from gpulint_rules.data.class_reads import read_class_by_class
from gpulint_rules.data.divisors import only_divides
from gpulint_rules.data.host_metrics import host_metric, metric_advice
from gpulint_rules.data.lightning_logs import is_handed_to_lightning, is_in_result
from gpulint_rules.data.loss_copies import may_carry_gradient
from gpulint_rules.data.moved_values import read_before_move
from gpulint_rules.data.needed_waits import is_solved
from gpulint_rules.data.read_uses import is_whole_copy, use_of_read
from gpulint_rules.data.repeated_waits import tests_parameters
from gpulint_rules.data.short_texts import shortened
from gpulint_rules.data.shown_values import draws, followed, is_shown
from gpulint_rules.data.step_lists import is_needed_in_step
from gpulint_rules.data.stored_tables import is_of_stored_table
from gpulint_rules.data.unread_totals import unread_total

_OF_KIND = {
    SyncKind.BARRIER: "remove it, or keep it for measurements: guard it with an option that is off by default",
    SyncKind.SELECT: (
        "keep the shape (`torch.where`, or multiply by the mask and divide by its sum), or find the rows once "
        "(`rows = mask.nonzero().squeeze(1)`) and pick with them everywhere"
    ),
    SyncKind.TEST: "let `GradScaler` skip bad steps, or test every N iterations on a value accumulated on the GPU",
    SyncKind.FORMAT: "log every N iterations, and call `.item()` only there",
}
_AT_ONCE = "copy the whole tensor once, before the loop over its elements (`values = tensor.tolist()`)"
_STORE_AT_ONCE = "store the elements of the batch at once (`kept[n : n + len(values)] = values`, `kept[rows] = values`)"
_INDEX_AT_ONCE = (
    "copy all indices once, before the loop (`indices.tolist()`), or work on all rows at once (`bank[indices]`, and "
    "`index_copy_` where no index occurs twice)"
)
_ALL_CLASSES = (
    "count for all classes at once on the GPU (`torch.bincount(classes * labels + preds, minlength=classes**2)`), and "
    "read the counts after the last batch"
)
_ON_HOST = "do this work on the GPU, or copy all that it needs in one transfer before its loop"
_PARAMETERS = "test all parameters at once: stack their flags, and test `torch.stack(flags).any()`"
_GRADIENTS = f"{_PARAMETERS}, or test the norm that `clip_grad_norm_` returns: it is finite only if all are"
_EACH = "decide on the GPU, without a test (`grad.mul_(factor.clamp(max=1))`, `torch.where`, `nan_to_num_`)"
_ANSWERS = (
    "read the answers for all of them at once: stack the values, copy them before the loop "
    "(`torch.stack(values).tolist()`), and test these"
)
_GUARD = "put the check behind a debug option, or check the batch on the host, before it is moved"
_DIVIDES = (
    "leave the test out and divide by a bounded value on the GPU (`gradient / norm.clamp(min=1e-12)`, `torch.where`)"
)
_DIVISOR = (
    "divide by the tensor itself, without reading it: the GPU divides by its own number, and the host need not wait"
)
_CHOOSES = "choose on the GPU (`torch.where(x > 3, x, other)`, `x.clamp(min=3)`)"
_COUNTS = "count all rows at once, on the GPU (`(rows == value).all(-1).sum()`), and read the counts together"
_PLOT = "draw it every N iterations or after the epoch, and copy what it needs only there"
_SAVE = "save it every N iterations or after the epoch, and copy it only there"
_DECODE = "decode and score the texts every N iterations or after the epoch, and copy only there"
_SOLVE = "copy what the solver needs once for the whole batch: it works in host memory"
_DROPPED = "remove it: nothing reads the value"
_HAND_OVER = "pass the tensor itself: Lightning reads it when it writes its log"
_JOINS = frozenset({"any", "all"})
MAX_TEXT = 60
"""Most characters of the code that a message shows."""
_LOGS = frozenset({"log", "add_scalar", "add_scalars", "log_metrics", "log_metric", "log_dict"})
_OF_JAX = {
    SyncKind.BARRIER: "remove it: JAX runs ahead of the GPU until something reads a result",
    SyncKind.TEST: "test every N iterations, or decide in the compiled step (`jnp.where`, `optax.apply_if_finite`)",
}
_KEEP = "keep the arrays in a list, and read all at once every N iterations or after the epoch (`jax.device_get(kept)`)"
_LOSS_ON_GPU = (
    "compute with the tensor on the GPU, the loss as well, with the targets there; copy only what needs no gradient"
)
_STACK = "stack the values of the table and copy them once (`torch.stack(values).tolist()`), as each step's are stored"
_SHOW = "show it every N iterations, and read it only there"
_LOSS = regex.compile(r"loss|grad|norm|err", re.IGNORECASE)
_GRADIENT = regex.compile(r"\.grad\b|\bgrad")
_SAVES = regex.compile(
    r"^(np|numpy)\.(save|savez|savez_compressed|savetxt)$|^torch\.save$|(^|\.)(imwrite|imsave|save_image)$"
    r"|^wandb\.(Image|Histogram|Video|Table|Audio)$|^nib\.save$"
)
_PLOTS = frozenset({"plt", "pyplot", "ax", "axes", "sns", "fig"})
_OF_USE = {
    "decides": "decide on the GPU (`torch.where`, a mask), or test every N iterations",
    "sizes": "take the size from the host: keep lengths on the CPU when the batch is made, or pad to a fixed size",
    "indexes": (
        "keep what it looks up on the GPU, as one tensor to index with the tensor itself, or take the indices from "
        "the host before the batch is moved"
    ),
    "computes": _ON_HOST,
    "handled": _ON_HOST,
    "kept": "compute with the tensor on the GPU, and read it only where it is shown: every N iterations",
    "listed": "append the detached tensor, and read all of them at once: every N iterations or after the epoch",
    "stored": "keep what it is stored in on the GPU, as one tensor: the next iterations read it again",
    "added": "accumulate with `.detach()` on the GPU and read the sum every N iterations or after the epoch",
}


def message(project: Project, module: ModuleIndex, sync: SyncPoint, context: LoopContext, *, passed: bool) -> str:
    """Return what a wait does, and how often; rounds may have ``passed`` by it."""
    often = "on training iterations that get there" if passed else "on every training iteration"
    if context.role is Role.EVAL:
        often = f"for each {'class' if _is_of_class(project, module, sync) else 'element'} of an evaluation batch"
    metric = host_metric(project, module, sync, context)
    said = f", {metric.said}" if metric is not None else ""
    return f"'{text_of(module, sync)}' makes the host wait for the GPU {often}{said}"


_BY_TEST = ((chooses, _CHOOSES), (counts, _COUNTS), (filters, _AT_ONCE), (is_of_element, _AT_ONCE))
"""Tests of elements, and what to do instead."""


def advice(project: Project, module: ModuleIndex, sync: SyncPoint, context: LoopContext) -> str:
    """Return what the program can do instead of waiting there."""
    if sync.node is sync.value or is_index_read(sync):
        return _STORE_AT_ONCE if sync.node is sync.value else _INDEX_AT_ONCE
    if context.role is Role.EVAL:
        return _ALL_CLASSES if _is_of_class(project, module, sync) else _AT_ONCE
    if project.fact(SyncPoints).is_of_jax(module, sync):
        return _OF_JAX.get(sync.kind, _KEEP)
    if is_handed_to_lightning(module, sync.node) or is_in_result(module, sync.node):
        return _HAND_OVER
    if tests_parameters(module, sync, context.loop.node):
        return _of_parameters(module, sync.node)
    if _only_guards(module, sync.node):
        return _GUARD
    if sync.kind is SyncKind.TEST and _guards_division(module, sync.node):
        return _DIVIDES
    if instead := next((words for test, words in _BY_TEST if test(module, sync)), None):
        return instead
    if sync.kind in _OF_KIND:
        return _OF_KIND[sync.kind]
    if isinstance(module.syntax.parents.get(sync.node), ast.Expr):
        return _DROPPED
    if before := metric_advice(project, module, sync, context) or read_before_move(project, module, sync):
        return before
    for ends_there, instead in ((_is_plotted, _PLOT), (_is_saved, _SAVE), (_is_decoded, _DECODE)):
        if any(ends_there(module, part) for part in followed(module, sync.node)):
            return instead
    if is_solved(project, module, sync.node):
        return _SOLVE
    if name := unread_total(module, sync.node):
        return f"nothing reads `{name}`: remove it, and the wait with it"
    one_by_one = bool(project.fact(SyncPoints).read_one_by_one(module, sync))
    if one_by_one and not is_whole_copy(module, sync.node):
        return _AT_ONCE
    if is_of_stored_table(module, sync.node):
        return _STACK
    use = use_of_read(module, sync.node)
    if use == "kept" and is_shown(project, module, sync.node, context):
        return _SHOW
    if use in ("kept", "added", "listed") and may_carry_gradient(project, module, sync.node):
        return _LOSS_ON_GPU
    if use == "added" and only_divides(module, sync.node):
        return _DIVISOR
    if use in ("added", "listed") and _is_logged(project, module, sync.node):
        return _OF_KIND[SyncKind.FORMAT]
    if use in ("kept", "added", "listed") and is_whole_copy(module, sync.node):
        if one_by_one:
            return "copy the whole tensor once, before the loop over its rows, or keep the batch's copy on the host"
        return "keep the detached tensor on the GPU, and copy several at once: every N iterations or after the epoch"
    return _OF_USE["computes" if use == "listed" and is_needed_in_step(module, sync.node, context) else use]


def _is_of_class(project: Project, module: ModuleIndex, sync: SyncPoint) -> bool:
    """Return whether a read of an evaluation is one of a class, not one of an element of a tensor."""
    return not project.fact(SyncPoints).read_one_by_one(module, sync) and bool(
        read_class_by_class(project, module, sync)
    )


def text_of(module: ModuleIndex, sync: SyncPoint) -> str:
    """Return what makes the host wait, in one line: of a test, with the ``.any()`` that joins its elements."""
    node: ast.expr = sync.node
    while sync.kind is SyncKind.TEST:
        joins = module.syntax.parents.get(node)
        call = module.syntax.parents.get(joins) if isinstance(joins, ast.Attribute) and joins.attr in _JOINS else None
        if not isinstance(call, ast.Call):
            break
        node = call
    text = " ".join(module.syntax.text(node).split())
    if len(text) > MAX_TEXT:
        text = shortened(node) or text
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."


def _is_logged(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether each step also hands the value to a log: ``wandb.log({"loss": value})``."""
    guards = project.fact(Guards)
    return any(
        isinstance(up, ast.Call) and last_name(up.func) in _LOGS and not guards.is_periodic(module, up)
        for use in followed(module, node)
        for up in takewhile(lambda up: not isinstance(up, ast.stmt), module.syntax.ancestors(use))
    )


def _guards_division(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a test keeps a program from dividing by zero: ``if norm != 0: step = gradient / norm``."""
    branch = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.If | ast.stmt)), None)
    if not isinstance(branch, ast.If) or branch.orelse:
        return False
    zero = {
        ast.unparse(part.left)
        for part in walk(branch.test)
        if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.NotEq | ast.Gt)
        if isinstance(part.comparators[0], ast.Constant) and part.comparators[0].value == 0
    }
    return any(
        isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div) and ast.unparse(part.right) in zero
        for statement in branch.body
        for part in walk(statement)
    )


def _of_parameters(module: ModuleIndex, node: ast.expr) -> str:
    """Return what a program can do instead of a test of each parameter."""
    if _changes_each(module, node):
        return _EACH
    if _decides_each(module, node):
        return _ANSWERS
    return _GRADIENTS if _GRADIENT.search(module.syntax.text(node)) else _PARAMETERS


def _changes_each(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether all that a test decides is whether tensors are changed: ``if factor < 1: p.grad.mul_(factor)``."""
    branch = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)
    return isinstance(branch, ast.If) and not branch.orelse and all(map(_changes_tensor, branch.body))


def _changes_tensor(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Attribute(), attr=name))):
            return name.endswith("_") and not name.startswith("_")
        case ast.AugAssign(target=ast.Attribute(), op=ast.Mult() | ast.Div()):
            return True
    return False


def _decides_each(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a test in a loop decides about the element of each round: ``if p.grad.sum() == 0: p.grad = None``,
    and not about all of them (``raise``, ``bad = True``)."""
    around = [*module.syntax.ancestors(node)]
    branch = next((up for up in around if isinstance(up, ast.stmt)), None)
    loop = next((up for up in around if isinstance(up, ast.For)), None)
    if not isinstance(branch, ast.If) or loop is None:
        return False
    own = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
    for part in (inner for statement in branch.body for inner in walk(statement)):
        match part:
            case ast.Continue():
                return True
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                if any(isinstance(inner, ast.Name) and inner.id in own for inner in walk(part)):
                    return True
    return False


def _only_guards(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether the value only decides whether the program fails, and is of the batch: no loss, no gradient."""
    if _LOSS.search(module.syntax.text(node)):
        return False
    below: ast.AST = node
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Assert(test=test):
                return below is test
            case ast.If(test=test, body=body, orelse=[]):
                return below is test and isinstance(body[-1], ast.Raise)
            case ast.stmt():
                return False
        below = up
    return False


def _is_saved(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a value is written to a file or a run: ``np.save(path, x)``, ``wandb.Histogram(x.cpu())``."""
    below: ast.AST = node
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Call(func=func) if below is not func and _SAVES.search(dotted(func)):
                return True
            case ast.stmt():
                return False
        below = up
    return False


def _is_decoded(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a tokenizer makes texts of a value: ``tokenizer.batch_decode(ids.cpu())``."""
    up = module.syntax.parents.get(node)
    return isinstance(up, ast.Call) and node in up.args and last_name(up.func) in ("batch_decode", "decode")


def _is_plotted(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a value is an argument of a call that draws: ``plt.imshow(x.cpu())``."""
    below: ast.AST = node
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Call(func=ast.Attribute() as func) if below is not func:
                return draws(up) or dotted(func).partition(".")[0] in _PLOTS
            case ast.stmt():
                return False
        below = up
    return False
