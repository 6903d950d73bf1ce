"""Sums of what a training step computes, kept on the GPU until they are read."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.fix import Declined, Fix, Safety
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.workspace.module_index import LoopNode, ModuleIndex
from gpulint_fixers.waits.deferred_reads import Variable, additions, defer
from gpulint_fixers.waits.device_reads import (
    DeviceRead,
    array_reads,
    host_losses,
    host_tensors,
    is_detached,
    is_plain_number,
    is_torch_tensor,
    reads_of,
    torch_of,
    without_cast,
)
from gpulint_fixers.waits.double_precision import has_doubles, in_single
from gpulint_fixers.waits.element_types import is_about_loss, is_float, is_integer
from gpulint_fixers.waits.sums.added_kinds import gets_tensors, is_float_in_each_round, only_integers
from gpulint_fixers.waits.sums.float_uses import is_used_as_float
from gpulint_fixers.waits.sums.formulas import is_formula
from gpulint_fixers.waits.sums.host_rounds import added_plainly
from gpulint_fixers.waits.sums.spread_devices import is_spread
from gpulint_fixers.waits.sums.sums_of_tables import is_read_at_once
from gpulint_fixers.waits.sums.tensor_sums import added_to_tensor, is_zeros
from gpulint_fixers.waits.sums.unproved_tensors import taken_for_tensors
from gpulint_fixers.waits.unread_values import unread

_GPU = regex.compile(r"cuda:\d+")


@dataclass(frozen=True, slots=True)
class Exactness:
    """Why a sum on the GPU may differ from that of Python's numbers; empty if it cannot."""

    reasons: tuple[str, ...]
    is_certain: bool
    """Whether all that is added is known to be a tensor."""


def variable_of(project: Project, found: HostWait, loop: LoopNode, name: str) -> Variable:
    document = project.document(found.module.path)
    assert document is not None
    return Variable(found.module, document, loop, name)


def accumulated(project: Project, found: HostWait, statement: ast.AugAssign, loop: LoopNode) -> Fix | Declined:
    """``total += loss.item()``: add on the GPU, and read the sum after the loop or where it is logged."""
    assert isinstance(statement.target, ast.Name)
    variable = variable_of(project, found, loop, statement.target.id)
    if (without := unread(project, variable, statement)) is not None:
        return without
    if is_read_at_once(found.module, loop, variable.name):
        return Declined("the same step reads the sum: of a dictionary with one entry, nothing is gained")
    if (initial := variable.initial()) and all(map(is_zeros, initial)):
        return added_to_tensor(project, found, statement)
    return _deferred(project, found, variable, statement.value)


def summed(project: Project, found: HostWait, statement: ast.Assign, loop: LoopNode) -> Fix | Declined:
    """``value = loss.item() / n`` and then ``total += value``, which is all that is done with it."""
    target = statement.targets[0]
    used = Declined("the value is used in the same step, and not only to log it or to add it up")
    if len(statement.targets) != 1 or not isinstance(target, ast.Name):
        return used
    value = variable_of(project, found, loop, target.id)
    nodes = value.occurrences() or []
    reads = [node for node in nodes if isinstance(node.ctx, ast.Load)]
    if not reads or len(nodes) != len(reads) + 1 or not all(map(value.is_inside, reads)):
        return used
    match addition := value.statement(reads[0]):
        case ast.AugAssign(target=ast.Name(id=total), op=ast.Add()) if _is_product(addition.value, reads):
            made = _deferred(project, found, variable_of(project, found, loop, total), statement.value)
            if isinstance(made, Declined) or addition.value is reads[0]:
                return made
            told = f"{made.description.removesuffix('; the sum is the same')}; products may be rounded differently"
            return replace(made, safety=Safety.UNSAFE, description=f"{told} in the last digit")
    return used


def _is_product(value: ast.expr, factors: list[ast.Name]) -> bool:
    """Return whether a value is one of some factors, or their product or power with numbers, and has them all."""
    parts = [part for part in walk(value) if isinstance(part, ast.expr)]
    return {part for part in parts if isinstance(part, ast.Name)} == {*factors} and all(
        isinstance(part, ast.Name)
        or is_number(part)
        or (isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult | ast.Div | ast.Pow))
        for part in parts
    )


def _deferred(project: Project, found: HostWait, variable: Variable, value: ast.expr) -> Fix | Declined:
    reads = reads_of(project, found)
    if isinstance(reads, Declined):
        if copied := host_tensors(found) or host_losses(found):
            return _copied(project, variable, value, copied)
        if not (arrays := array_reads(found)):
            return reads
        made = added_up(project, variable, value, arrays, integers=False)
        if isinstance(made, Declined):
            return made
        told = f"{made.description}; `{variable.name}` is a float instead of a number of NumPy"
        return replace(made, safety=Safety.UNSAFE, description=told)
    integers = all(is_integer(found.module, read.tensor) for read in reads)
    return added_up(project, variable, value, reads, integers=integers)


def _copied(project: Project, variable: Variable, value: ast.expr, reads: list[DeviceRead]) -> Fix | Declined:
    """``correct += (prediction == label).cpu().sum()``: the sum is a tensor of the host, which it becomes again."""
    module, torch = variable.module, torch_of(variable.module)
    losses = [read for read in reads if not is_integer(module, read.tensor)]
    if torch is None or not all(is_about_loss(module.syntax.text(read.tensor)) for read in losses):
        return Declined("more is copied to the host than a number")
    if not (initial := variable.initial()) or not all(map(is_number, initial)):
        return Declined(f"`{variable.name}` does not start as a number in this function")
    others = [one.value for one in additions(variable) if ast.unparse(one.value) != ast.unparse(value)]
    if not all(is_plain_number(module, other) for other in others):
        return Declined(f"other statements add to `{variable.name}`, which may be tensors of the host")
    exact = exactness(project, module, value, reads)
    if isinstance(exact, Declined):
        return exact
    made = defer(project, variable, f"{torch}.as_tensor({{}}).cpu()", own={*additions(variable)}, in_place=False)
    if isinstance(made, Declined):
        return made
    reasons = [*exact.reasons, *made.reasons]
    if made.logs is not None:
        reasons.append(f"it is logged every {made.logs.every} steps")
    description = "; ".join(["add up on the GPU and copy the sum when it is used", *dict.fromkeys(reasons)])
    suffixes = [_without_detach(".detach()", read) if read in losses else "" for read in reads]
    edits = (read.replaced(module, suffix) for read, suffix in zip(reads, suffixes, strict=True))
    return Fix(description, Safety.UNSAFE, (*edits, *made.edits))


def added_up(
    project: Project, variable: Variable, value: ast.expr, reads: list[DeviceRead], *, integers: bool
) -> Fix | Declined:
    """Let ``variable``, to which ``value`` is added, be a tensor inside of the loop. ``integers`` says that the reads
    give some."""
    module = variable.module
    initial = variable.initial()
    if not initial or not all(is_number(value) or _is_own(value, variable.name) for value in initial):
        return Declined(f"`{variable.name}` does not start as a number in this function")
    value, uncast = without_cast(module, value, reads)
    exact = exactness(project, module, value, reads)
    if isinstance(exact, Declined):
        return exact
    if _may_be_apart(variable, value, reads):
        return Declined(f"the tensors that `{variable.name}` adds up may be on different GPUs")
    whole = integers and _is_sum(value, reads)
    counts = whole and all(isinstance(value, ast.Constant) and isinstance(value.value, int) for value in initial)
    counts = counts and only_integers(variable, value)
    doubles = has_doubles(project, module)
    reasons = [*exact.reasons]
    if not counts and not doubles:
        reasons.append(f"the sum is {in_single(project, module)}")
    known = counts or any(isinstance(value.value, float) for value in initial if isinstance(value, ast.Constant))
    floats = all(is_float(module, read.tensor) for read in reads) and is_float_in_each_round(variable, value)
    if gets_tensors(project, variable, value):
        reasons.append(f"`{variable.name}`, to which tensors are added as well, is turned into a float")
    elif not (known or floats or is_used_as_float(variable)):
        reasons.append(f"`{variable.name}` is turned back into a float")
    kept = replace(variable, integers=counts)
    made = defer(project, kept, "int({})" if counts else "float({})", own={*additions(variable)})
    if isinstance(made, Declined):
        return made
    suffix = (
        ".double()" if counts and made.reasons and doubles else "" if counts else ".detach()" + ".double()" * doubles
    )
    reasons += made.reasons
    if made.logs is not None:
        reasons.append(f"it is logged every {made.logs.every} steps")
    if isinstance(plain := added_plainly(project, variable, reads), Declined):
        return plain
    edits = (*(read.replaced(module, _without_detach(suffix, read)) for read in reads), *plain, *uncast, *made.edits)
    description = "add up on the GPU and read the sum when it is used"
    if not exact.is_certain and not counts and not reasons:
        reasons = taken_for_tensors(project, module, reads)
    if reasons:
        return Fix("; ".join([description, *dict.fromkeys(reasons)]), Safety.UNSAFE, edits)
    return Fix(f"{description}; the sum is the same", Safety.SAFE, edits)


def _may_be_apart(variable: Variable, value: ast.expr, reads: list[DeviceRead]) -> bool:
    """Return whether a sum adds up several tensors in a file that names more than one GPU, or those of rounds that have
    a GPU each: they can be added only where they are on the same one."""
    if is_spread(variable.module, value):
        return True
    added = {ast.unparse(one) for one in (value, *(one.value for one in additions(variable)))}
    syntax = variable.module.syntax
    several = len(added) > 1 or len({ast.unparse(read.tensor) for read in reads}) > 1
    named = {one.value for one in syntax.of(ast.Constant) if isinstance(one.value, str) and _GPU.fullmatch(one.value)}
    return several and len(named) > 1


def _without_detach(suffix: str, read: DeviceRead) -> str:
    return suffix.replace(".detach()", "") if is_detached(read.tensor) else suffix


def averaged(project: Project, found: HostWait, statement: ast.Assign, loop: LoopNode) -> Fix | Declined | None:
    """``average = 0.9 * average + 0.1 * loss.item()``: a moving average on the GPU; None for anything else."""
    match statement.targets:
        case [ast.Name(id=name)] if any(isinstance(p, ast.Name) and p.id == name for p in walk(statement.value)):
            variable = variable_of(project, found, loop, name)
        case _:
            return None
    initial = variable.initial()
    if not initial or not all(value is statement.value or is_number(value) for value in initial):
        return Declined(f"`{name}` does not start as a number in this function")
    reads = reads_of(project, found)
    if isinstance(reads, Declined):
        return reads
    if not _is_average(statement.value, name, {read.whole for read in reads}):
        return Declined("more is done with the number than averaging it")
    made = defer(project, variable, "float({})", own={statement})
    if isinstance(made, Declined):
        return made
    doubles = has_doubles(project, found.module)
    logs = "" if made.logs is None else f"; it is logged every {made.logs.every} steps"
    edits = (*(read.replaced(found.module, ".detach().double()" if doubles else ".detach()") for read in reads),)
    return Fix(
        f"average on the GPU and read the average when it is used{'' if doubles else ', in single precision'}{logs}",
        Safety.UNSAFE,
        (*edits, *made.edits),
    )


def _is_average(value: ast.expr, name: str, wholes: set[ast.expr]) -> bool:
    """Return whether an expression is a sum of multiples of a variable and of numbers that are read."""
    if value in wholes:
        return True
    match value:
        case ast.Name(id=own):
            return own == name
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
            return _is_average(left, name, wholes) and _is_average(right, name, wholes)
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return (_is_factor(left) and _is_average(right, name, wholes)) or (
                _is_factor(right) and _is_average(left, name, wholes)
            )
    return False


def _is_factor(value: ast.expr) -> bool:
    """``0.9``, ``momentum``, ``(1 - momentum)``."""
    match value:
        case ast.Constant(value=int() | float()) | ast.Name() | ast.Attribute():
            return True
        case ast.BinOp(op=ast.Sub(), left=left, right=right):
            return _is_factor(left) and _is_factor(right)
    return False


def is_number(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def _is_own(value: ast.expr, name: str) -> bool:
    """``total = total / count``: the variable itself, read and divided."""
    match value:
        case ast.BinOp(left=ast.Name(id=own), op=ast.Div() | ast.Mult(), right=right):
            return own == name and isinstance(right, ast.Constant | ast.Name | ast.Attribute)
        case ast.Call(func=ast.Name(id="float"), args=[ast.Name(id=own)]):
            return own == name
    return False


def _is_sum(value: ast.expr, reads: list[DeviceRead]) -> bool:
    """Return whether a value is nothing but a read."""
    return any(value is read.whole for read in reads)


def exactness(project: Project, module: ModuleIndex, value: ast.expr, reads: list[DeviceRead]) -> Exactness | Declined:
    """Return what an expression does with the numbers that it reads."""
    wholes = {read.whole for read in reads}
    reasons: list[str] = []
    if not all(is_integer(module, read.tensor) for read in reads if read.copies):
        reasons.append("the GPU adds in another order, which may round the last digit differently")

    def visit(node: ast.expr) -> bool:
        if node in wholes:
            return True
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
                return all(visit(side) if _has(side, wholes) else _number(side) for side in (left, right))
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                sides = [side for side in (left, right) if _has(side, wholes)]
                return len(sides) == 1 and visit(sides[0]) and _number(right if sides[0] is left else left)
            case ast.BinOp(op=ast.Pow(), left=left, right=ast.Constant(value=2)):
                reasons.append("squares may be rounded differently in the last digit")
                return visit(left)
            case ast.BinOp(op=ast.Pow(), left=left, right=right) if not _has(right, wholes):
                reasons.append("powers may be rounded differently in the last digit")
                return visit(left) and _number(right)
            case ast.BinOp(op=ast.Div(), left=left, right=right):
                if not _is_power_of_two(right):
                    reasons.append(
                        "GPUs divide by multiplying with the reciprocal, which may round the last digit differently"
                    )
                return not _has(right, wholes) and visit(left) and _number(right)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if is_formula(project, module, node):
                reasons.append(f"`{name}` computes on the GPU, which may round the last digit differently")
                return all(visit(arg) if _has(arg, wholes) else _number(arg) for arg in args)
            case ast.IfExp(test=test, body=body, orelse=other) if not _has(test, wholes):
                return all(visit(side) if _has(side, wholes) else _number(side) for side in (body, other))
        return False

    def _number(node: ast.expr) -> bool:
        match node:
            case _ if is_plain_number(module, node):
                return True
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), left=left, right=right):
                return _number(left) and _number(right)
            case ast.Name() | ast.Attribute() | ast.Subscript():
                reasons.append(f"`{ast.unparse(node)}` is taken for a number")
                return True
        return False

    if not visit(value):
        return Declined("more is done with the number than adding it up")
    certain = all(is_torch_tensor(project, module, read.tensor) for read in reads)
    return Exactness(tuple(dict.fromkeys(reasons)), certain)


def _has(node: ast.expr, wholes: set[ast.expr]) -> bool:
    return any(part in wholes for part in walk(node))


def _is_power_of_two(node: ast.expr) -> bool:
    if not isinstance(node, ast.Constant) or type(node.value) is not int or node.value < 1:
        return False
    return node.value & (node.value - 1) == 0
