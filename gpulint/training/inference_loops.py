"""Forward passes that nobody differentiates: loops in which a model in evaluation mode runs with gradients enabled."""

from __future__ import annotations

import ast
import itertools
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import cyclic, query
from gpulint.records import dataclass
from gpulint.semantic.path_conditions import is_failing
from gpulint.semantic.points_to import Resolver
from gpulint.training.call_values import is_kept_out
from gpulint.training.differentiation import propagated, propagates
from gpulint.training.evaluated_models import evaluated, forward_disables, may_disable, runs, speaks_of_gradients
from gpulint.training.guards import Guards
from gpulint.training.held_models import held_forwards
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role, has_one_round, stops_at_once
from gpulint.training.single_calls import run_once_beside
from gpulint.workspace.module_index import (
    FUNCTIONS,
    LOOPS,
    FunctionNode,
    LoopNode,
    ModuleIndex,
    NodeRef,
    dotted,
    last_name,
)

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_CALLERS = 4
MAX_MENTIONS = 200
"""Most calls after ``model.eval()`` that are looked at."""


@dataclass(frozen=True, slots=True)
class InferenceLoop:
    """A loop that runs ``model`` for evaluation and builds graphs. ``forward`` is the first such call."""

    module: ModuleIndex
    loop: LoopNode | None
    """None where the model runs once, on the whole data set, between two steps of the training."""
    function: FunctionNode | None
    forward: ast.Call
    model: str
    trains_too: bool = False
    """Whether the same loop trains in other calls."""


def graphs_in_evaluation(project: Project, module: ModuleIndex) -> Iterator[InferenceLoop]:
    """Evaluation loops of a module in which gradients are certainly enabled, once per outermost loop."""
    if "torch" not in module.packages:
        return
    seen = set[ast.AST]()
    flags = [*_set_by_flag(module)]
    for mode, model in (*evaluated(project, module), *flags):
        function, by_flag = module.function(mode), (mode, model) in flags
        if function is not None and speaks_of_gradients(module, function):
            continue
        # Who calls the function may take the whole tree to find out, so that comes last.
        held = [call for call in held_forwards(project, module, mode, model) if _enabled(project, module, call, 0)]
        calls = [*held, *_forwards(project, module, mode, model)]
        cut_short = len(_mentioned_after(module, mode, model)) > MAX_MENTIONS
        if not (calls or cut_short) or not (held or _enabled(project, module, mode, 0)):
            continue
        if cut_short:
            module.report_limit(f"a function uses a model more than {MAX_MENTIONS} times")
        for call in calls:
            loop, home = _outermost(project, module, call, mode), module.function(call)
            if may_disable(module, call, home):
                continue
            if loop is not None:
                if loop not in seen and not by_flag:
                    seen.add(loop)
                    yield InferenceLoop(module, loop, home, call, model)
            elif (shared := _shared_loop(project, module, call)) is not None:
                if shared not in seen:
                    seen.add(shared)
                    yield InferenceLoop(module, shared, home, call, model, trains_too=True)
            elif by_flag or _is_part_of_loss(project, module, call):
                continue
            elif home not in seen and _between_steps(project, module, call, mode):
                seen.add(home or call)
                yield InferenceLoop(module, None, home, call, model)


def _set_by_flag(module: ModuleIndex) -> Iterator[tuple[ast.Call, str]]:
    """Yield calls that set a model to train or to evaluate by what the function is told (``model.train(training)``)."""
    for mode in module.calls_by_name.get("train", ()):
        if isinstance(mode.func, ast.Attribute) and len(mode.args) == 1 and not mode.keywords:
            told = not isinstance(mode.args[0], ast.Constant) and module.function(mode) is not None
            if told and isinstance(module.syntax.parents.get(mode), ast.Expr) and (model := dotted(mode.func.value)):
                yield mode, model


@query
def trains_as_well(project: Project, module: ModuleIndex, function: FunctionNode, calls: int = MAX_CALLERS) -> bool:
    """Return whether a function trains, or calls what does, so that only a part of it may run without gradients."""
    loops = project.fact(LoopContexts)
    inside = walk(function)
    if any(isinstance(part, LOOPS) and loops.role(module, part) in (Role.STEP, Role.EPOCH) for part in inside):
        return True
    for call in (part for part in inside if isinstance(part, ast.Call)):
        if last_name(call.func) == "backward" or loops.is_training_step(module, call):
            return True
        if calls and any(
            isinstance(callee.node, FUNCTIONS)
            and callee.node is not function
            and trains_as_well(project, callee.module, callee.node, calls - 1)
            for callee in project.fact(Resolver).callees(module, call)
        ):
            return True
    return False


def _forwards(project: Project, module: ModuleIndex, mode: ast.Call, model: str) -> Iterator[ast.Call]:
    """Calls after ``model.eval()`` in its function, and before ``model.train()``, that run the model."""
    function = module.function(mode)
    if function is None:
        yield from _in_functions(project, module, model)
    for call in _mentioned_after(module, mode, model)[:MAX_MENTIONS]:
        if dotted(call.func) == f"{model}.train":
            if _other_branch(module, mode, call):
                continue
            return
        if is_failing(module, call):
            continue
        if (dotted(call.func) == model and not forward_disables(project, module, call)) or runs(
            project, module, call, model
        ):
            yield call


def _mentioned_after(module: ModuleIndex, mode: ast.Call, model: str) -> list[ast.Call]:
    """Calls after ``model.eval()`` in its function that run the model, a method of it, or get it."""
    table = _mentions(module, module.function(mode))
    calls = table.get(model, [])
    if model.startswith("self."):  # methods of its object may run it
        calls = sorted({*calls, *table.get("self", ())}, key=_start)
    return calls[bisect_right(calls, _start(mode), key=_start) :]


def _other_branch(module: ModuleIndex, one: ast.Call, other: ast.Call) -> bool:
    """Return whether two calls are in the branches of one ``if`` (``if train: model.train() else: model.eval()``, also
    as one expression)."""
    around = [up for up in module.syntax.ancestors(one) if isinstance(up, ast.If | ast.IfExp)]
    return any(up in around for up in module.syntax.ancestors(other))


def _shared_loop(project: Project, module: ModuleIndex, call: ast.Call) -> LoopNode | None:
    """The loop around ``call`` that trains in other calls of its function, and in some takes no step for what these
    pass (``run(loader, train=False)``)."""
    function = module.function(call)
    loops = project.fact(LoopContexts)
    loop = next((up for up in loops.around(module, call) if loops.role(module, up) is Role.STEP), None)
    if function is None or loop is None:
        return None
    return loop if next(_evaluating_sites(project, module, function, loop, call), None) is not None else None


def evaluating_sites(project: Project, found: InferenceLoop) -> list[NodeRef]:
    """Return the calls with gradients enabled for which a loop that trains in others takes no step."""
    if found.function is None or found.loop is None:
        return []
    return list(_evaluating_sites(project, found.module, found.function, found.loop, found.forward))


def _evaluating_sites(
    project: Project, module: ModuleIndex, function: FunctionNode, loop: LoopNode, call: ast.Call
) -> Iterator[NodeRef]:
    loops = project.fact(LoopContexts)
    steps = [step for step in loops.calls_in(module, loop) if loops.is_training_step(module, step)]
    for site in project.fact(Resolver).call_sites(module, function) if steps else ():
        left_out = all(is_kept_out(project, module, step, (site,)) for step in steps)
        if (
            left_out
            and not is_kept_out(project, module, call, (site,))
            and _enabled(project, site.module, site.node, 1)
        ):
            yield site


def _between_steps(project: Project, module: ModuleIndex, call: ast.Call, mode: ast.Call) -> bool:
    """Return whether the model runs once for evaluation after each step of a training on whole graphs or data sets."""
    function = module.function(call)
    loops = project.fact(LoopContexts)
    if project.fact(Guards).is_periodic(module, call):
        return False  # a look at one batch now and then
    around = list(loops.around(module, call))
    if around:
        loop = around[0]
        return (
            loop in module.syntax.ancestors(mode)
            and loops.role(module, loop) is Role.STEP
            and all(
                step.lineno < mode.lineno
                for step in loops.calls_in(module, loop)
                if loops.is_training_step(module, step)
            )
        )
    return function is not None and any(
        context.role in (Role.STEP, Role.EPOCH)
        and isinstance(context.loop.node, LOOPS)
        and not (stops_at_once(context.loop.node) or has_one_round(context.loop.node))
        for context in loops.enclosing_loops_of_function(module, function)
    )


@query
def _mentions(module: ModuleIndex, function: FunctionNode | None) -> dict[str, list[ast.Call]]:
    """Models by their names -> the calls of a function that run them, call their methods or are passed them, in
    source order."""
    table: dict[str, list[ast.Call]] = {}
    for call in sorted(module.calls_of(function), key=_start):
        owner = dotted(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        for name in {dotted(call.func), owner, *map(dotted, call.args)} - {""}:
            table.setdefault(name, []).append(call)
    return table


def _in_functions(project: Project, module: ModuleIndex, model: str) -> Iterator[ast.Call]:
    """Calls of a model that the module as a whole sets to evaluate, in its functions' loops over batches."""
    if any(dotted(call.func) == f"{model}.train" for call in module.calls_by_name.get("train", [])):
        return
    for call in module.calls_by_name.get(model, []):
        function = module.function(call)
        if function is None or not isinstance(call.func, ast.Name) or speaks_of_gradients(module, function):
            continue
        bindings = module.scope(call.func).lookup(model)
        loops = (loop for loop in project.fact(LoopContexts).around(module, call) if isinstance(loop, ast.For))
        if (
            all(binding.scope is module.top for binding in bindings)
            and any(project.fact(LoopContexts).over_loader(module, loop) for loop in loops)
            and _enabled(project, module, call, 0)
        ):
            yield call


def _outermost(project: Project, module: ModuleIndex, call: ast.Call, mode: ast.Call) -> LoopNode | None:
    """The outermost loop around ``call`` that runs over batches or is without ``model.eval()``; None in a training step
    or a look at one batch."""
    found: LoopNode | None = None
    around = set(module.syntax.ancestors(mode))
    for loop in project.fact(LoopContexts).around(module, call):
        role = project.fact(LoopContexts).role(module, loop)
        if stops_at_once(loop) or role is Role.STEP:
            return None
        if role is Role.EPOCH and found is not None:
            break  # it trains as well
        if loop not in around or project.fact(LoopContexts).over_loader(module, loop):
            found = loop
    return found


def _enabled(project: Project, module: ModuleIndex, node: ast.AST, depth: int) -> bool:
    """Return whether gradients are enabled where ``node`` runs, as far as every caller in the tree goes."""
    function = module.function(node)
    if may_disable(module, node, None) or depth > MAX_CALLERS:
        return False
    if function is None:
        return "set_grad_enabled" not in module.calls_by_name
    return _calls_enabled(project, module, function, depth)


def leaves_enabled(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether all calls of a function leave gradients enabled, and none differentiates what it returns."""
    return _calls_enabled(project, module, function, 0)


@cyclic(False)
def _calls_enabled(project: Project, module: ModuleIndex, function: FunctionNode, depth: int) -> bool:
    """Return whether all calls of a function leave gradients enabled, but for those that switch them off in sight, if
    others are as frequent; a method without known calls may be called by anything, unless it trains."""
    owner = module.syntax.parents.get(function)
    if any(
        isinstance(context.loop.node, FUNCTIONS)
        for context in project.fact(LoopContexts).enclosing_loops_of_function(module, function)
    ):
        # A framework's hook: the framework decides.
        return False
    sites = project.fact(Resolver).call_sites(module, function)
    enabled, disabled, guards = list[NodeRef](), list[NodeRef](), project.fact(Guards)
    for site in sites:
        assert isinstance(site.node, ast.Call)
        if (caller := site.module.function(site.node)) is function:
            continue
        if guards.is_without_gradients(site.module, site.node):
            disabled.append(site)
            continue
        enabled.append(site)
        if depth == 0 and _is_differentiated(project, site) and not _returns_numbers(project, function):
            return False
        if (caller is not None and speaks_of_gradients(site.module, caller)) or not _enabled(
            project, site.module, site.node, depth + 1
        ):
            return False
    if sites:
        return bool(enabled) and not run_once_beside(enabled, disabled)
    return not isinstance(owner, ast.ClassDef) or trains_as_well(project, module, function)


def _is_part_of_loss(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the result goes into a loss that the function propagates, as where a discriminator judges what
    is trained."""
    up = module.syntax.parents.get(call)
    targets = up.targets if isinstance(up, ast.Assign) else []
    named = {part.id for target in targets for part in walk(target) if isinstance(part, ast.Name)}
    return bool(named & propagated(project, module, module.function(call)))


def _returns_numbers(project: Project, function: FunctionNode) -> bool:
    """Return whether a function returns what it has read from the GPU, which cannot be differentiated."""
    returned = project.fact(Resolver).returns(function)
    parts = [part for value in returned for part in (value.elts if isinstance(value, ast.Tuple) else [value])]
    return bool(parts) and all(_is_number(part) for part in parts)


def _is_number(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=func):
            return last_name(func) in ("item", "float", "numpy", "tolist") or last_name(func).endswith("_score")
        case ast.BinOp(left=left, right=right):
            return _is_number(left) or _is_number(right)
    return False


def _is_differentiated(project: Project, site: NodeRef) -> bool:
    """Return whether the result of the call is a loss that its caller propagates; in a training step, whether it may
    be one."""
    up = site.module.syntax.parents.get(site.node)
    if isinstance(up, ast.Expr):
        return False
    in_step = project.fact(LoopContexts).in_role(site.module, site.node, Role.STEP) is not None
    if isinstance(up, ast.Assign):
        named = {part.id for target in up.targets for part in walk(target) if isinstance(part, ast.Name)}
        used = propagated(project, site.module, site.module.function(site.node))
        return bool(named & used) if named else in_step
    around = itertools.takewhile(lambda node: not isinstance(node, ast.stmt), site.module.syntax.ancestors(site.node))
    return in_step or any(isinstance(node, ast.Call) and propagates(project, site.module, node) for node in around)


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset
