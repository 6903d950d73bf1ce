"""What it detects
Code that makes the host wait for the GPU on every training iteration: ``.item()``, ``.cpu()``, ``.tolist()``,
``float(loss)``, printing or logging a tensor on the GPU, ``if torch.isnan(loss)``, ``logits[labels == 1]`` (the host
needs the size of the result), ``if loss > 10``, ``wandb.log`` of a tensor, ``torch.cuda.synchronize()``; the same of
arrays that a function compiled by JAX returns, and ``jax.device_get``, ``np.asarray`` and ``block_until_ready()`` of
them; each number of a tensor that a loop indexes with (``bank[target]``); also inside helpers that the loop calls, and
methods of an ``autograd.Function`` that it applies. In evaluation, where one wait per batch does little harm, only
predictions that are read one by one (``preds[i].item()`` in a loop over the batch), and scores that are read class by
class (``(preds == label).sum().item()`` in a loop over the labels).

Recognizes loops of PyTorch and JAX (``jax.jit``, ``jax.pmap``, Flax NNX, Equinox) and the hooks of Lightning modules,
Hugging Face trainers, callbacks (Lightning, Keras), SpeechBrain brains, Determined trials, Ignite engines and MMCV's
``train_step``; batches that Accelerate or Fabric place are not taken for host memory.

Why it costs GPU time
The host can queue kernels ahead of the GPU. Each of these calls waits until the queue is empty, and the GPU then
idles until the host has queued the next kernels. Inefficient host-GPU data transfer is the most frequent category of
the study: 27.9% of 706 issues in 400 jobs.

When to ignore this rule
The value is needed at that iteration (a stopping criterion, a skipped step; actions for an environment on the host
are never reported); the iteration is so long that one wait is negligible. A ``synchronize()`` beside a clock measures
steps on purpose and is not reported.

Fix safety
Safe where a sum of numbers that are read every iteration becomes a sum on the GPU in double precision (or of integers),
read once after the loop or where it is logged every N steps, where nothing reads what is added up, so that it is
removed, where a tensor that is only read stays on the host, and where ``tensor.tolist()`` replaces the reads of a
tensor's elements: the numbers are the same. Unsafe: copies that each round of an inner loop makes, made once above it,
logging every N steps instead of every step, one copy for the values of a list that an inner loop reads one by one
(tensors of one type, on one device), or for the numbers of a tensor that it indexes with, sums in single precision
where the tree names a device without double precision or an option or a library may, lists of labels and predictions
that stay on the GPU until the loop ends, values that a step uses several times (added up, listed, logged, metered) with
what it computes of them, functions that return tensors where the training loop alone calls them, tests of the loss that
end the program up to N steps later, scores of which only the last is read, computed below the loop, and removing
``torch.cuda.synchronize()``, after which timings measure only the host. Other values that control the program are left
alone, and so are all reads of a loop in which every step waits for such a value anyway. A fix that helps only with
unsafe ones is unsafe as well.

References
https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.gate import Gate
from gpulint.impact import Cost
from gpulint.placement.cpu_models import is_of_cpu_program, trains_on_host
from gpulint.placement.environment_actions import feeds_rl_environment
from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.placement.synchronization import SyncPoints
from gpulint.placement.unknown_results import is_not_on_gpu
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.ray_tasks import is_in_task_without_gpus
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.path_conditions import conditions, is_ending
from gpulint.training.bounded_loops import FEW, reads_few_batches
from gpulint.training.branches import is_in_branch
from gpulint.training.cuda_tests import excludes_cuda
from gpulint.training.full_batches import is_full_batch
from gpulint.training.guards import Guards, is_benchmark
from gpulint.training.loop_contexts import LoopContext, LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.training.own_trainings import is_own_training
from gpulint.training.phases import belongs_to_other_phase, draws_figure, is_model_variant_branch, only_evaluates
from gpulint.workload.sample_preprocessing import is_held_out
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, ModuleIndex, NodeRef
from gpulint_rules.data.class_reads import read_class_by_class
from gpulint_rules.data.exclusive_branches import exclude, is_beside_training
from gpulint_rules.data.host_stores import feeds_loader
from gpulint_rules.data.timed_barriers import takes_time
from gpulint_rules.data.wait_advice import advice, message
from gpulint_rules.data.wait_callers import (
    is_seldom_reached,
    of_one_caller,
    other_calls,
    waits_below,
    writes_checkpoint,
)
from gpulint_rules.data.wait_counts import outermost_loop
from gpulint_rules.data.wait_groups import cost, group_of


@dataclass(frozen=True, slots=True)
class HostWait:
    """What a fix needs: the waits of one statement, and the loop around them."""

    module: ModuleIndex
    statement: ast.AST
    syncs: tuple[SyncPoint, ...]
    context: LoopContext


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None or is_benchmark(module.path):
        return
    reached: dict[SyncPoint, tuple[LoopContext, ...]] = {}
    syncs = project.fact(SyncPoints)
    for sync in syncs.in_module(module):
        if not project.fact(GpuPrograms).runs_on_gpu(module):
            return
        contexts = tuple(_every_step(project, module, syncs, sync))
        reached[sync] = contexts or _every_element(project, module, syncs, sync)
    statements: dict[ast.AST, list[tuple[SyncPoint, LoopContext]]] = {}
    for sync, context in of_one_caller(module, reached):
        statements.setdefault(_statement(module, sync.node), []).append((sync, context))
    in_loop: dict[ast.AST, list[tuple[SyncPoint, LoopContext]]] = {}
    for sync, context in (item for found in statements.values() for item in found):
        in_loop.setdefault(context.loop.node, []).append((sync, context))
    groups = {loop: group_of(project, module, inside) for loop, inside in in_loop.items()}
    helps: dict[object, str] = {}
    for statement, found in statements.items():
        found.sort(key=lambda item: (item[0].node.lineno, item[0].node.col_offset))
        sync, context = found[0]
        yield RULE.finding(
            document.path,
            module.syntax.span(sync.node),
            message(project, module, sync, context, passed=is_in_branch(project, module, sync.node, context)),
            help=helps.setdefault(_pattern(module, sync), advice(project, module, sync, context)),
            severity=Severity.INFO if sync.node in groups[context.loop.node].staying else None,
            payload=HostWait(module, statement, tuple(sync for sync, _ in found), context),
            related=(*_way(context), *_other_calls(reached[sync], context)),
            cost=cost(project, module, [sync for sync, _ in found], context, groups[context.loop.node]),
            cause=outermost_loop(context) if context.role is Role.STEP else _own_loop(context),
        )


def _every_step(project: Project, module: ModuleIndex, syncs: SyncPoints, sync: SyncPoint) -> Iterator[LoopContext]:
    """The training loops whose every iteration reaches the primitive."""
    if project.fact(LoopContexts).is_outside_by_name(module, sync.node):
        return
    guards = project.fact(Guards)
    without_gradients = guards.is_without_gradients(module, sync.node) and not _in_step_loop(project, module, sync)
    if without_gradients and not _is_meter(project, module, sync):
        return
    if (
        guards.is_debugging(module, sync.node)
        or is_ending(module, sync.node)
        or guards.is_error_path(module, sync.node)
        or guards.runs_once(module, sync.node)
        or any(excludes_cuda(module, test, holds) for test, holds in conditions(module, sync.node))
        or only_evaluates(module, sync.node)
        or (sync.kind is SyncKind.BARRIER and takes_time(module, _statement(module, sync.node)))
        or project.fact(GpuPrograms).tries_itself(module, sync.node)
    ):
        return
    # Most code is in no loop; the values that its conditions get are only followed for what is.
    contexts = _steps(project, module, sync)
    if not contexts or (
        guards.is_periodic(module, sync.node)
        or feeds_loader(module, sync.node)
        or guards.is_before_loop_exit(module, sync.node)
        or is_model_variant_branch(project, module, sync.node)
    ):
        return
    for context in contexts:
        # What is off around the whole loop (`if args.do_train`) says nothing of its iterations.
        loop = context.loop
        if guards.is_off_by_default(module, sync.node, loop.node) or guards.answers_peer(module, sync.node, loop.node):
            continue
        if without_gradients and not context.calls:
            continue  # a hook of a framework
        if any(is_seldom_reached(project, site, context, without_gradients) for site in context.calls):
            continue
        if feeds_rl_environment(module, sync.node, context.calls) or writes_checkpoint(context):
            continue
        if any(draws_figure(project, *place) for place in waits_below(module, sync, context)):
            continue
        if syncs.gets_numbers(module, sync, context.calls):
            continue
        if isinstance(loop.node, LOOPS) and trains_on_host(project, loop.module, loop.node):
            continue
        reached = context.calls[0] if context.calls else NodeRef(module, sync.node)
        if belongs_to_other_phase(project, context.loop, reached) or is_beside_training(project, context.loop, reached):
            continue
        yield context


def _steps(project: Project, module: ModuleIndex, sync: SyncPoint) -> list[LoopContext]:
    """The loops around the primitive that take a training step in each iteration, except for those of other programs
    that use no GPU; none if the value is on the host."""
    found = [
        context
        for context in project.fact(LoopContexts).enclosing_loops(module, sync.node)
        if context.role is Role.STEP
        and not is_full_batch(context.loop.node)
        and not is_own_training(project, context.loop)
        and not is_of_cpu_program(project, module, context.loop.module)
        and not is_in_task_without_gpus(project, context.loop.module, context.loop.node)
    ]
    return [] if found and sync.value is not None and is_not_on_gpu(project, module, sync) else found


def _every_element(
    project: Project, module: ModuleIndex, syncs: SyncPoints, sync: SyncPoint
) -> tuple[LoopContext, ...]:
    """The loop over evaluation batches that reads the elements of a tensor one by one, or scores class by class."""
    guards = project.fact(Guards)
    if (
        sync.kind not in (SyncKind.READ, SyncKind.TEST)
        or not (loops := syncs.read_one_by_one(module, sync) or read_class_by_class(project, module, sync))
        or guards.is_periodic(module, sync.node)
        or guards.is_debugging(module, sync.node)
        or guards.is_error_path(module, sync.node)
        or guards.is_off_by_default(module, sync.node)
        or any(_is_below_few(test) for test, holds in conditions(module, sync.node) if holds)
    ):
        return ()
    for context in project.fact(LoopContexts).enclosing_loops(module, sync.node):
        inside = bool(context.calls) or isinstance(context.loop.node, FUNCTIONS) or context.loop.node not in loops
        if context.role is Role.EVAL and inside and not reads_few_batches(project, context.loop):
            return (context,)
    return ()


def _is_below_few(test: ast.expr) -> bool:
    """``shown < 3``, perhaps among other conditions: only a few examples are looked at."""
    return any(
        isinstance(part, ast.Compare)
        and isinstance(part.ops[0], ast.Lt | ast.LtE)
        and isinstance(part.comparators[0], ast.Constant)
        and isinstance(part.comparators[0].value, int)
        and part.comparators[0].value <= FEW
        for part in walk(test)
    )


def _in_step_loop(project: Project, module: ModuleIndex, sync: SyncPoint) -> bool:
    return any(
        project.fact(LoopContexts).role(module, loop) is Role.STEP
        for loop in project.fact(LoopContexts).around(module, sync.node)
    )


def _is_meter(project: Project, module: ModuleIndex, sync: SyncPoint) -> bool:
    """Return whether the sync is in a function without a loop that is not there to evaluate."""
    function = module.function(sync.node)
    return (
        function is not None
        and not is_held_out(function.name)
        and not any(project.fact(LoopContexts).around(module, sync.node))
    )


def _own_loop(context: LoopContext) -> Place | None:
    """The loop of an evaluation, whose waits are no matter of the training around it."""
    module, node = context.loop.module, context.loop.node
    return Place(module.path, module.syntax.span(node)) if isinstance(node, ast.stmt | ast.expr) else None


def _statement(module: ModuleIndex, node: ast.expr) -> ast.AST:
    for up in module.syntax.ancestors(node):
        if isinstance(up, ast.stmt):
            return node if hasattr(up, "body") else up
    return node


def _pattern(module: ModuleIndex, sync: SyncPoint) -> object:
    """Return what reads have in common that look the same: ``t.item()`` in two comprehensions of a function."""
    up = module.syntax.parents.get(sync.node)
    return module.function(sync.node), sync.kind, module.syntax.text(up if isinstance(up, ast.expr) else sync.node)


def _way(context: LoopContext) -> tuple[Place, ...]:
    """The calls that lead from the loop to the primitive."""
    loop = "evaluation" if context.role is Role.EVAL else "training"
    return tuple(
        Place(site.module.path, site.module.syntax.span(site.node), f"called from the {loop} loop here")
        for site in context.calls
        if isinstance(site.node, ast.Call)
    )


def _other_calls(contexts: tuple[LoopContext, ...], context: LoopContext) -> Iterator[Place]:
    """Yield the other calls in the same loop that lead to the primitive, as in the branches of a scaler: the first may
    be the one that no usual run takes."""
    for site in other_calls(contexts, context):
        note = "or here, in another branch" if exclude(site.module, site.node, context.calls[0].node) else "and here"
        if isinstance(site.node, ast.Call):
            yield Place(site.module.path, site.module.syntax.span(site.node), note)


_METHODS = (
    ".item(", ".cpu(", ".tolist(", ".data[0]", "synchronize(", "get_scale(", "state_dict()[", "set_", ".is",
    ".info(", ".debug(", "wandb.log(", "masked_select(", "add_scalar", '"cpu"', "'cpu'", "device_get(",
    "block_until_ready(", ".type(torch.",
)  # fmt: skip
_FUNCTIONS = ("float", "int", "bool", "print")
_OTHERS = regex.compile(rf"(?<![\w.])(?:{'|'.join(_FUNCTIONS)})\(".encode())
_PICKS = regex.compile(rb"[\w\])]\[(?:~|[A-Za-z_]\w*\]|[^\[\]\n:]*[=<>]|[^\[\]\n:]*\.(?:bool|isnan|isfinite)\()")
_STORES = regex.compile(rb"(?m)^[ \t]+\w+\[[^\n=]{1,80}\] = \w+\[")
_TESTS = regex.compile(rb"\b(?:if|while)\b[^\n]{0,200}(?:[<>]|[=!]=)")


def _may_fire(gate: Gate) -> bool:
    """Besides methods that wait and comparisons, only functions count: ``x.float()`` does not, ``float(x)`` does."""
    if gate.has_any(_METHODS) or (any(map(gate.has_word, _FUNCTIONS)) and gate.matches(_OTHERS)):
        return True
    if gate.has("[") and gate.matches(_PICKS):
        return True
    return gate.has_word("torch") and (gate.matches(_TESTS) or gate.matches(_STORES))


RULE = Rule(
    code="GPU305",
    name="host-sync-in-loop",
    category=Category.HOST_GPU_TRANSFER,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    reads=("sync", "hook"),
    may_fire=_may_fire,
    summary="the host waits for the GPU on every training iteration, or for each element in evaluation",
    why="each wait empties the GPU's queue, which idles while the host queues the next step",
    evidence=(Evidence("27.9% of 706 issues in 400 jobs with GPU utilization of 50% or less"),),
    check=check,
    cost=Cost("host-wait"),
    fix=Safety.SAFE,
    bad="""\
for step, (x, y) in enumerate(loader):
    loss = criterion(model(x), y)
    loss.backward()
    running += loss.item()
""",
    good="""\
for step, (x, y) in enumerate(loader):
    loss = criterion(model(x), y)
    loss.backward()
    running += loss.detach()
    if step % 100 == 0:
        print(running.item())
""",
    references=(
        "https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization",
    ),
)
