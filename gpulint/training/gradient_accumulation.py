"""Loops that add up gradients over several backward passes before they update the parameters."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.records import dataclass
from gpulint.semantic.path_conditions import conditions, contexts_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import BindingKind, LoopNode, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_UPDATES = frozenset({"update_grad", "need_update"})
"""What scalers that do the backward pass themselves call the flag for the last micro-step (timm, MAE, Swin)."""
_SYNC = regex.compile(r"(^|_)(no|grad|gradient|ddp|maybe)_\w*sync|sync_(ctx|context|gradients?)$", re.IGNORECASE)
"""Names of what switches the exchange for a block."""
_SWITCHES = frozenset({"no_sync", "set_requires_gradient_sync", "require_backward_grad_sync"})
_PARTS = regex.compile(r"accum|micro_?(batch|step)|chunk|subdivision|sub_?batch", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Accumulation:
    """A loop that accumulates gradients; ``last`` tests for its last micro-step, None if there is no one test."""

    loop: LoopNode
    backward: ast.Call
    step: ast.Call
    last: ast.expr | None
    model: ast.expr | None
    """What the loop calls and is wrapped in DDP or FSDP."""


def accumulations(project: Project, module: ModuleIndex) -> Iterator[Accumulation]:
    """Those of a module whose micro-steps are all alike, once for each loop."""
    for loop in module.loops:
        calls = project.fact(LoopContexts).calls_in(module, loop)
        found = _in_turns(project, module, loop, calls) or _by_scaler(module, calls) or _in_parts(project, module, loop)
        # What the loop does is asked last: that takes following its calls.
        if found is not None and project.fact(LoopContexts).role(module, loop) is Role.STEP:
            backward, step, last = found
            if _skips(project, module, backward, calls) or _passes_wrapper_by(module, backward):
                continue
            yield Accumulation(loop, backward, step, last, _wrapped(project, module, calls))


def _skips(project: Project, module: ModuleIndex, backward: ast.Call, calls: list[ast.Call]) -> bool:
    """``with ddp_sync(model, last):`` by its name, or a helper of the tree that the loop calls and that switches the
    exchange itself."""
    around = [
        context
        for up in module.syntax.ancestors(backward)
        if isinstance(up, ast.With)
        for context in contexts_of(up)
        if isinstance(context, ast.Call)
    ]
    return any(_SYNC.search(last_name(context.func)) for context in around) or any(
        isinstance(part, ast.Attribute) and part.attr in _SWITCHES
        for call in (*around, *calls)
        for helper in project.fact(Resolver).callees(module, call)
        for part in walk(helper.node)
    )


def _passes_wrapper_by(module: ModuleIndex, backward: ast.Call) -> bool:
    """``loss = model.module(batch)``: DDP exchanges nothing after a forward pass that is not its own."""
    loss = backward.func.value if isinstance(backward.func, ast.Attribute) else None
    values = [loss]
    if isinstance(loss, ast.Name):
        values = [binding.value for binding in reaching(module, module.scope(loss).lookup(loss.id), loss)]
    calls = [part for value in values if value is not None for part in walk(value) if isinstance(part, ast.Call)]
    return any(isinstance(part, ast.Attribute) and part.attr == "module" for call in calls for part in walk(call.func))


def _in_turns(
    project: Project, module: ModuleIndex, loop: LoopNode, calls: list[ast.Call]
) -> tuple[ast.Call, ast.Call, ast.expr | None] | None:
    """``loss.backward()``, and ``if step % N == 0: optimizer.step()`` in the same loop."""
    backwards = [call for call in calls if last_name(call.func) == "backward" and not _is_of_nothing(module, call)]
    step = next((call for call in calls if _updates(call) and _is_seldom(project, module, call, loop)), None)
    if step is None:
        return None
    backwards = [call for call in backwards if not _is_used_at_once(project, module, call, calls, loop)]
    backward = next((call for call in backwards if not _exclude(module, call, step, loop)), None)
    if backward is None or project.fact(Guards).is_periodic(module, backward, loop):
        return None
    return backward, step, _last_step(module, step, loop)


def _is_used_at_once(
    project: Project, module: ModuleIndex, backward: ast.Call, calls: list[ast.Call], loop: LoopNode
) -> bool:
    """Return whether an optimizer steps after a backward pass in each round, as that of a critic does before the
    generator's turn."""
    after = [call for call in calls if call.lineno > backward.lineno]
    following = next((call.lineno for call in after if last_name(call.func) == "backward"), math.inf)
    return any(
        call.lineno < following and _hands_optimizer(call) and not any(conditions(module, call, loop)) for call in after
    ) or any(
        call.lineno < following
        and last_name(call.func) == "step"
        and not _is_seldom(project, module, call, loop)
        and not any(conditions(module, call, loop))
        and (_updates(call) or _is_of_optimizer(project, module, call))
        for call in after
    )


def _hands_optimizer(call: ast.Call) -> bool:
    """``clip_and_step(model, optimizer)``"""
    return isinstance(call.func, ast.Name) and any("optim" in last_name(value).lower() for value in call.args)


def _is_of_optimizer(project: Project, module: ModuleIndex, step: ast.Call) -> bool:
    resolver = project.fact(Resolver)
    made = resolver.points_to(module, step.func.value) if isinstance(step.func, ast.Attribute) else ()
    return any(
        isinstance(one.node, ast.Call)
        and any(
            name.startswith("torch.optim.") and "lr_scheduler" not in name
            for name in resolver.call_names(one.module, one.node)
        )
        for one in made
    )


def _is_of_nothing(module: ModuleIndex, backward: ast.Call) -> bool:
    """``sum(p.sum() * 0.0 for p in model.parameters()).backward()``, which only takes part in the exchange where there
    is nothing to learn from."""
    loss = backward.func.value if isinstance(backward.func, ast.Attribute) else None
    made = [loss]
    if isinstance(loss, ast.Name):
        made = [binding.value for binding in reaching(module, module.scope(loss).lookup(loss.id), loss)]
    return any(
        isinstance(part, ast.BinOp)
        and isinstance(part.op, ast.Mult)
        and any(isinstance(side, ast.Constant) and side.value == 0 for side in (part.left, part.right))
        for value in made
        if value is not None
        for part in walk(value)
    )


def _by_scaler(module: ModuleIndex, calls: list[ast.Call]) -> tuple[ast.Call, ast.Call, ast.expr | None] | None:
    """``loss_scaler(loss, optimizer, update_grad=(step + 1) % N == 0)``, which does the backward pass each time."""
    for call in calls:
        flag = next((keyword.value for keyword in call.keywords if keyword.arg in _UPDATES), None)
        if flag is not None and "scaler" in last_name(call.func).lower():
            test = _written_out(module, flag)
            if any(map(_is_open_rest, walk(test))):
                return call, call, test
    return None


def _written_out(module: ModuleIndex, flag: ast.expr) -> ast.expr:
    """The test that a flag was set to."""
    if isinstance(flag, ast.Name):
        bindings = reaching(module, module.scope(flag).lookup(flag.id), flag)
        if len(bindings) == 1 and bindings[0].value is not None and not bindings[0].path:
            return bindings[0].value
    return flag


def _in_parts(
    project: Project, module: ModuleIndex, loop: LoopNode
) -> tuple[ast.Call, ast.Call, ast.expr | None] | None:
    """``for part in chunks: loss(part).backward()`` with one ``optimizer.step()`` after it in the outer loop."""
    outer = next(project.fact(LoopContexts).around(module, loop), None)
    if not isinstance(loop, ast.For) or outer is None or not _PARTS.search(ast.unparse(loop.iter)):
        return None
    inside = project.fact(LoopContexts).calls_in(module, loop)
    backward = next((call for call in inside if last_name(call.func) == "backward"), None)
    if backward is None or any(map(_updates, inside)) or project.fact(Guards).is_periodic(module, backward, loop):
        return None
    after = (
        call
        for call in project.fact(LoopContexts).calls_in(module, outer)
        if _updates(call) and call.lineno > loop.lineno
    )
    step = next(after, None)
    return (backward, step, None) if step is not None else None


def _updates(call: ast.Call) -> bool:
    return (
        last_name(call.func) == "step"
        and isinstance(call.func, ast.Attribute)
        and any(word in last_name(call.func.value).lower() for word in ("optim", "scaler", "opt"))
    )


def _is_seldom(project: Project, module: ModuleIndex, step: ast.Call, loop: LoopNode) -> bool:
    """Return whether parameters are updated every N iterations, or as often as an option says whose default is 1."""
    if project.fact(Guards).is_periodic(module, step, loop):
        return True
    last = _last_step(module, step, loop)
    return last is not None and any(
        isinstance(part, ast.BinOp) and _is_open_rest(part) and not _is_always_one(project, module, part.right)
        for part in walk(last)
    )


def _is_always_one(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a constant of the program, which is no option, is 1: nothing is accumulated."""
    known = project.fact(Constants).of(module, node)
    return known.every(lambda value: value == 1) and all(value.source == "literal" for value in known.values)


def _is_open_rest(part: ast.AST) -> bool:
    """``step % N``, where N is no number."""
    return isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) and not isinstance(part.right, ast.Constant)


def _exclude(module: ModuleIndex, one: ast.AST, other: ast.AST, loop: LoopNode) -> bool:
    """Return whether two calls are in different branches of one condition."""
    tests = dict(conditions(module, one, loop))
    return any(tests.get(test, holds) is not holds for test, holds in conditions(module, other, loop))


def _last_step(module: ModuleIndex, step: ast.Call, loop: LoopNode) -> ast.expr | None:
    """The test on the counter under which parameters are updated."""
    for test, holds in conditions(module, step, loop):
        if holds and any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) for part in walk(test)):
            return test
    return None


def _wrapped(project: Project, module: ModuleIndex, calls: list[ast.Call]) -> ast.expr | None:
    for call in calls:
        if isinstance(call.func, ast.Name | ast.Attribute):
            origins = [ref.node for ref in project.fact(Resolver).points_to(module, call.func)]
            made = {last_name(node.func) for node in origins if isinstance(node, ast.Call)}
            if made & {"DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP"}:
                return call.func
    return None


def in_one_process(project: Project, module: ModuleIndex, found: Accumulation) -> bool:
    """Return whether the loop calls what ``DataParallel``, or a class that inherits from it, wraps: the process has all
    GPUs, and gradients are exchanged within it."""
    if found.model is not None:
        return False
    resolver = project.fact(Resolver)
    return any(
        isinstance(origin.node, ast.Call) and _is_data_parallel(resolver, origin.module, origin.node)
        for call in project.fact(LoopContexts).calls_in(module, found.loop)
        if isinstance(call.func, ast.Name | ast.Attribute)
        for origin in resolver.points_to(module, call.func)
    )


def _is_data_parallel(resolver: Resolver, module: ModuleIndex, call: ast.Call) -> bool:
    if last_name(call.func) == "DataParallel":
        return True
    return any(
        name.rpartition(".")[2] == "DataParallel"
        for where, owner in resolver.classes_of(module, call.func)
        for name in resolver.base_names(where, owner)
    )


def own_length(module: ModuleIndex, found: Accumulation) -> str | None:
    """Return the length in the test for the last micro-step that is not of what the loop goes through: each process may
    have another one."""
    if found.last is None or not isinstance(found.loop, ast.For):
        return None
    through = {ast.unparse(part) for value in _named(module, found.loop.iter) for part in walk(value)}
    for value in _named(module, found.last):
        for part in walk(value.left if isinstance(value, ast.BinOp) else value):
            match part:
                case ast.Call(func=ast.Name(id="len"), args=[counted]) if ast.unparse(counted) not in through:
                    return ast.unparse(part)
    return None


def _named(module: ModuleIndex, node: ast.expr) -> list[ast.expr]:
    """An expression, and what the names in it were set to: calls (``tqdm(loader)``) and ends (``len(loader) - 1``)."""
    names = (part for part in walk(node) if isinstance(part, ast.Name))
    bindings = (one for name in names for one in reaching(module, module.scope(name).lookup(name.id), name))
    values = (one.value for one in bindings if one.kind is BindingKind.ASSIGN and not one.path)
    ends = (ast.Sub, ast.Add)
    return [
        node,
        *(v for v in values if isinstance(v, ast.Call) or (isinstance(v, ast.BinOp) and isinstance(v.op, ends))),
    ]
