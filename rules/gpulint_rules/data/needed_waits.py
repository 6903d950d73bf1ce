"""Waits that a step cannot do without: for a value that decides, by a scaler of gradients, a barrier or a solver."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.devices import Device
from gpulint.placement.host_results import casts_to_host
from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.placement.synchronization import SyncPoints
from gpulint.placement.tensor_location import TensorLocations
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_rules.data.choosing_tests import chooses, counts, filters, is_of_element
from gpulint_rules.data.gradient_scalers import is_disabled, scales_in_half_precision
from gpulint_rules.data.read_uses import use_of_read
from gpulint_rules.data.shown_values import followed, same_values
from gpulint_rules.data.tensor_bounds import ends
from gpulint_rules.data.timed_barriers import times_step
from gpulint_rules.data.value_checks import looks_at_values, mask_tests, solves_on_host, waits_itself

_SYNC_POINT = regex.compile(r"\bsync(hroni[sz]ation)?[- ]?point\b", re.IGNORECASE)
_SCALER = regex.compile(r"(^|_)(grad|loss|amp)?_?scaler$", re.IGNORECASE)
_STREAM = regex.compile(r"(^|_)stream$")
_CHECKS = frozenset({"isnan", "isinf", "isfinite"})
_AVOIDABLE = (chooses, counts, filters, is_of_element)
_BARRIERS = frozenset({"torch.distributed.barrier", "torch.distributed.distributed_c10d.barrier"})


def is_needed(project: Project, module: ModuleIndex, sync: SyncPoint) -> bool:
    """Return whether the step cannot go on without the value: a branch, a size, samples of the next step, an assignment
    that the host solves; or its author says that it waits."""
    if sync.kind is SyncKind.TEST and any(test(module, sync) for test in _AVOIDABLE):
        return False
    if sync.kind is SyncKind.TEST or _is_named(module, sync.node):
        return True
    if sync.kind is not SyncKind.READ or is_cast(sync):
        return False
    use = use_of_read(module, sync.node)
    if use == "decides":
        return not _is_only_recorded(module, sync.node)
    return use in ("sizes", "stored") or is_solved(project, module, sync.node)


def _is_only_recorded(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether all that a value decides is a record of the values: ``if norm > largest: largest = norm``,
    ``if norm > limit: clipped += 1``."""
    found = [decision for use in followed(module, node) if (decision := _decision(module, use)) is not None]
    return bool(found) and all(
        isinstance(one, ast.If) and not one.orelse and all(map(_records, one.body)) for one in found
    )


def tests_itself(
    project: Project, module: ModuleIndex, syncs: Sequence[SyncPoint], loop: ast.AST
) -> Iterator[ast.expr]:
    """Yield the comparisons of tensors that each step also reads, by which it decides: ``if loss > 10 * average``."""
    guards = project.fact(Guards)
    for use in dict.fromkeys(use for sync in syncs for use in same_values(module, sync.value)):
        test = module.syntax.parents.get(use)
        decision = _decision(module, use) if isinstance(test, ast.Compare) else None
        if (
            isinstance(test, ast.Compare)
            and isinstance(decision, ast.If)
            and test is decision.test
            and isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
            and loop in module.syntax.ancestors(decision)
            and not all(map(_records, decision.body))
            and not guards.is_debugging(module, decision)
        ):
            yield test


def decides_by_sum(project: Project, module: ModuleIndex, node: ast.expr, loop: ast.AST) -> bool:
    """Return whether each step decides by a sum or a moving average that a value goes into: ``if total < limit``."""
    statement = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), node)
    match statement:
        case ast.AugAssign(target=ast.Name(id=name)):
            pass
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            if not any(isinstance(part, ast.Name) and part.id == name for part in walk(value)):
                return False
        case _:
            return False
    guards = project.fact(Guards)
    for use in module.uses.get(name, ()):
        decision = _decision(module, use) if loop in module.syntax.ancestors(use) else None
        if not isinstance(decision, ast.If) or isinstance(decision.test, ast.BoolOp):
            continue
        records = not decision.orelse and all(map(_records, decision.body))
        inside = loop in module.syntax.ancestors(decision) and use in walk(decision.test)
        if inside and not records and not guards.is_conditional(module, decision, loop):
            return True
    return False


def _decision(module: ModuleIndex, use: ast.expr) -> ast.AST | None:
    """The branch, or else the comparison, that a value is in."""
    found: ast.AST | None = None
    for up in module.syntax.ancestors(use):
        if isinstance(up, ast.stmt):
            return up if isinstance(up, ast.If | ast.While | ast.Assert) else found
        if isinstance(up, ast.Compare | ast.BoolOp | ast.IfExp):
            found = up
    return found


def _records(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name()], value=ast.Name()):
            return True
        case ast.AugAssign(target=ast.Name(), value=ast.Constant() | ast.Name()):
            return True
    return False


def is_solved(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a copy, or what is made of it, is in one statement with a solver that takes it."""
    for use in followed(module, node):
        statement = next((up for up in module.syntax.ancestors(use) if isinstance(up, ast.stmt)), use)
        calls = (part for part in (() if hasattr(statement, "body") else walk(statement)) if isinstance(part, ast.Call))
        if any(solves_on_host(project, module, call) for call in calls):
            return True
    return False


def is_cast(sync: SyncPoint) -> bool:
    """Return whether a wait only changes a type, which the GPU can do as well."""
    return isinstance(sync.node, ast.Call) and casts_to_host(sync.node)


def _is_named(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a comment on the statement, or right above it, names the wait (``# Copy the stats from GPU to CPU
    (sync point).``)."""
    statement = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), node)
    span = module.syntax.span(statement) if isinstance(statement, ast.stmt | ast.expr) else None
    if span is None or span.cell is not None:
        return False
    above = module.syntax.source.line(span.line - 1).strip() if span.line > 1 else ""
    own = module.syntax.source.line(span.line).partition("#")[2]
    return any(_SYNC_POINT.search(text) for text in (above if above.startswith("#") else "", own))


def other_waits(project: Project, module: ModuleIndex, blocks: Sequence[ast.AST]) -> Iterator[ast.expr]:
    """Yield what makes each round wait, which no finding of the rule names: a scaler of gradients that decides whether
    to step, a clock, the return of all cached memory, a solver of the host, a test for numbers that are none."""
    guards = project.fact(Guards)
    for block in blocks:
        yield from _calls(project, module, block, _is_wait)
        own = _calls(project, module, block, _waits_itself)
        yield from (call for call in own if not guards.is_conditional(module, call, block))
        yield from _checks(project, module, block)
        yield from counted_masks(project, module, block)
        yield from ends(project, module, block)
        yield from _empty_masks(project, module, block)
        yield from _copied_switches(project, module, block)


def timed_waits(project: Project, module: ModuleIndex, block: ast.AST) -> Iterator[ast.expr]:
    """Yield the barriers by which a block takes the time."""
    yield from _calls(project, module, block, lambda _, where, call: times_step(where, call))


def sized_waits(project: Project, module: ModuleIndex, block: ast.AST) -> Iterator[ast.expr]:
    """Yield those of them that wait for a size or to check a value in any case: ``labels.unique()``,
    ``tokens[:, : lengths.max()]``, ``if flag:`` of a flag that was copied to the GPU."""
    own = _calls(project, module, block, waits_itself)
    yield from (call for call in own if not project.fact(Guards).is_conditional(module, call, block))
    yield from ends(project, module, block)
    yield from _copied_switches(project, module, block)


def _empty_masks(project: Project, module: ModuleIndex, block: ast.AST) -> Iterator[ast.expr]:
    """Yield tests whether a mask is empty by which the same part picks rows: ``if not valid.any(): continue``."""
    selects = [one.node for one in project.fact(SyncPoints).in_module(module) if one.kind is SyncKind.SELECT]
    picked = {
        select.slice.id
        for select in selects
        if isinstance(select, ast.Subscript) and isinstance(select.slice, ast.Name)
        if block in module.syntax.ancestors(select)
    }
    branches: Iterator[ast.If] = module.syntax.of(ast.If)
    for branch in branches if picked else ():
        if block not in module.syntax.ancestors(branch) or project.fact(Guards).is_periodic(module, branch):
            continue
        for part in walk(branch.test):
            match part:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="any" | "all"), args=[]):
                    if name in picked:
                        yield part


def _copied_switches(project: Project, module: ModuleIndex, block: ast.AST) -> Iterator[ast.expr]:
    """Yield tests of what was copied to the GPU, as a switch that all processes share is: ``if flag:``."""
    branches: Iterator[ast.If] = module.syntax.of(ast.If)
    for branch in branches:
        test = branch.test.operand if isinstance(branch.test, ast.UnaryOp) else branch.test
        if not isinstance(test, ast.Name) or block not in module.syntax.ancestors(branch):
            continue
        made = [one.value for one in reaching(module, module.scope(test).lookup(test.id), test)]
        moves = [
            project.fact(DeviceTransfers).transfer_at(module, one) if isinstance(one, ast.Call) else None
            for one in made
        ]
        if moves and all(move is not None and (move.to_gpu or Device.CUDA in move.devices) for move in moves):
            yield test


def looked_at(project: Project, module: ModuleIndex, block: ast.AST) -> Iterator[ast.expr]:
    """Yield those of them that wait for a value: a solver of the host, a metric that checks what it is given, a result
    of unknown size, a test for numbers that are none."""
    yield from _calls(project, module, block, looks_at_values)
    yield from sized_waits(project, module, block)
    yield from _checks(project, module, block)


def _calls(
    project: Project, module: ModuleIndex, block: ast.AST, waits: Callable[[Project, ModuleIndex, ast.Call], bool]
) -> Iterator[ast.Call]:
    guards = project.fact(Guards)
    for call in (part for part in walk(block) if isinstance(part, ast.Call)):
        if not waits(project, module, call):
            continue
        if not guards.is_periodic(module, call) and not guards.is_off_by_default(module, call, block):
            yield call


def _checks(project: Project, module: ModuleIndex, block: ast.AST) -> Iterator[ast.expr]:
    yield from _unguarded(project, module, block, project.fact(SyncPoints).asserted(module))
    yield from _unguarded(project, module, block, value_tests(project, module))


def counted_masks(project: Project, module: ModuleIndex, block: ast.AST) -> Iterator[ast.expr]:
    """Yield the tests of a block whether a mask picks anything."""
    yield from _unguarded(project, module, block, mask_tests(project, module))


def _unguarded(project: Project, module: ModuleIndex, block: ast.AST, checks: Iterable[ast.expr]) -> Iterator[ast.expr]:
    guards = project.fact(Guards)
    for check in checks:
        if block not in module.syntax.ancestors(check) or guards.is_periodic(module, check):
            continue
        if not guards.is_debugging(module, check) and not guards.is_off_by_default(module, check, block):
            yield check


@query
def value_tests(project: Project, module: ModuleIndex) -> tuple[ast.expr, ...]:
    """The conditions that ask PyTorch whether a tensor holds numbers, and are no findings, for nothing tells where it
    is, or it is one test of all: ``if p.grad is not None and torch.isnan(p.grad).any()``."""
    branches: Iterator[ast.If | ast.IfExp | ast.While] = module.syntax.of(ast.If, ast.IfExp, ast.While)
    asking = [
        branch.test
        for branch in branches
        if any(
            isinstance(part, ast.Call) and _asks_torch(project, module, part)
            for tested in _meant(module, branch.test)
            for part in walk(tested)
        )
    ]
    found = {sync.node for sync in project.fact(SyncPoints).in_module(module)} if asking else set[ast.expr]()
    return tuple(test for test in asking if found.isdisjoint(walk(test)))


def _meant(module: ModuleIndex, test: ast.expr) -> Iterator[ast.expr]:
    """Yield a test, and what its name was given: ``broken = not torch.isfinite(loss)``."""
    yield test
    inner = test.operand if isinstance(test, ast.UnaryOp) else test
    made = module.scope(inner).lookup(inner.id) if isinstance(inner, ast.Name) else ()
    if len(made) == 1 and isinstance(made[0].value, ast.expr) and not made[0].path:
        yield made[0].value


def _asks_torch(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr="any" | "all"), args=[]):
            if "torch.stack" in project.fact(Resolver).call_names(module, inner):
                return True
    if last_name(call.func) not in _CHECKS or not call.args:
        return False
    names = project.fact(Resolver).call_names(module, call)
    of_torch = any(name.startswith("torch.") for name in names)
    return of_torch and not project.fact(TensorLocations).is_host(module, call.args[0])


@query
def _is_wait(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    name = last_name(call.func)
    match call.func:
        case ast.Attribute(value=owner) if name == "backward" and call.args:
            return scales_in_half_precision(project, module, owner)
        case ast.Attribute(value=owner) if name == "step" and _SCALER.search(last_name(owner)):
            return not is_disabled(project, module, owner)
        case ast.Name() | ast.Attribute() if _SCALER.search(name) and len(call.args) + len(call.keywords) > 1:
            return not name[0].isupper() and not is_disabled(project, module, call.func)
        case ast.Attribute() if name == "empty_cache":
            return True
        case ast.Name() | ast.Attribute() if name == "barrier":
            return bool(project.fact(Resolver).call_names(module, call) & _BARRIERS)
        case ast.Attribute(value=owner) if name == "synchronize" and _STREAM.search(
            last_name(owner.func if isinstance(owner, ast.Call) else owner)
        ):
            return True
        case ast.Attribute() if name == "synchronize":
            return times_step(module, call)
    return looks_at_values(project, module, call)


def _waits_itself(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    if last_name(call.func) == "save":
        return "torch.save" in project.fact(Resolver).call_names(module, call)
    return waits_itself(project, module, call)
