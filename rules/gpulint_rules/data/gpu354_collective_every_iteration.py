"""What it detects
``all_reduce``, ``reduce``, ``all_gather``, ``gather`` or ``barrier`` (torch.distributed, Horovod, Accelerate, Fabric)
in every training iteration for values that only get logged, or per batch of an evaluation loop, also inside helpers;
Lightning's ``self.log(..., sync_dist=True)`` for each training step.

Also recognizes torch_xla; PyTorch loops and the hooks of Lightning modules, Hugging Face trainers, callbacks
(Lightning, Keras), SpeechBrain brains, Ignite engines and MMCV's models.

Why it costs GPU time
Every collective waits for the slowest process. Gradients need one per step; a loss that is only printed does not.
Data exchange accounts for 7.1% of the study's 706 issues.

When to ignore this rule
The collective is part of the algorithm: contrastive losses gather embeddings, some schemes scale gradients by a
global count. Collectives before the backward pass whose result may enter the loss are not reported.

Fix safety
Unsafe: values that are reduced to be logged are reduced and logged every N steps, as the rest of the loop's log, and a
barrier is removed, after which processes no longer wait for each other there. What is reduced for a sum, and what an
evaluation reduces for each batch, has advice only: sum on the device and reduce once after the loop.

References
https://pytorch.org/docs/stable/distributed.html#collective-functions
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.base import Document
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.gate import Gate
from gpulint.impact import Cost
from gpulint.libraries import gate_words
from gpulint.programs.single_gpu import only_as_one_process
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.path_conditions import conditions
from gpulint.source import Span
from gpulint.training.collective_results import is_averaged, is_only_shown, only_logged
from gpulint.training.collectives import Collectives, collective, reduces_log
from gpulint.training.guards import Guards, is_benchmark, is_of_processes
from gpulint.training.loop_contexts import LoopContext, LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name


@dataclass(frozen=True, slots=True)
class EveryStep:
    """Payload: a collective, or the call that leads to one, and the loops that repeat it."""

    place: NodeRef
    is_direct: bool
    """Whether the place is the collective itself."""
    is_barrier: bool
    roles: frozenset[Role]
    sites: tuple[NodeRef, ...]
    """The calls in the loops, by which they reach the collective."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None or is_benchmark(module.path):
        return
    known = project.models.derived(Collectives)
    told = set[ast.AST]()
    for call in module.calls:
        if text := reduces_log(module, call, project):
            yield from _logged(text, NodeRef(module, call), project)
            continue
        if last_name(call.func) in known.gathers and not is_averaged(module, call):
            continue  # it may well feed the loss or the metric
        name = collective(module, call, project)
        contexts = project.fact(LoopContexts).enclosing_loops(module, call) if name else ()
        found = [context for context in contexts if _wasteful(name, module, call, context, project)]
        if found and only_as_one_process(project, document.path):
            continue
        if found and len(found) == len(contexts):
            yield _finding(name, name in known.barriers, NodeRef(module, call), found)
            continue
        # A helper that is also called where it does no harm: the calls in the loops are to blame.
        for context in found:
            if context.calls and context.calls[0].node in told:
                continue  # it reaches several collectives
            told.update(call.node for call in context.calls[:1])
            yield _finding(
                name,
                name in known.barriers,
                context.calls[0] if context.calls else NodeRef(module, call),
                [context],
                NodeRef(module, call),
            )


def _logged(text: str, place: NodeRef, project: Project) -> Iterator[Finding]:
    """A value that a framework reduces at each training step, to log it."""
    guards = project.fact(Guards)
    for context in project.fact(LoopContexts).enclosing_loops(place.module, place.node):
        ways = (place, *context.calls)
        if context.role is Role.STEP and not any(guards.is_periodic(way.module, way.node) for way in ways):
            assert isinstance(place.node, ast.expr)
            yield RULE.finding(
                place.module.path,
                place.module.syntax.span(place.node),
                f"{text} makes all processes wait in every training step",
                help="pass `on_step=False, on_epoch=True`, so that the mean of the epoch is reduced once; or leave "
                "`sync_dist` out, which then logs the loss of the first process",
            )
            return


def _wasteful(name: str, module: ModuleIndex, call: ast.Call, context: LoopContext, project: Project) -> bool:
    place = context.calls[0] if context.calls else NodeRef(module, call)
    loop = context.loop.node
    if context.role not in (Role.STEP, Role.EVAL) or isinstance(loop, ast.While):
        return False
    for ref in (NodeRef(module, call), *context.calls):
        if project.fact(Guards).is_periodic(ref.module, ref.node) or project.fact(Guards).is_off_by_default(
            ref.module, ref.node, loop
        ):
            return False
        if project.fact(Guards).runs_once(ref.module, ref.node) or _decides(ref):
            return False
    known = project.models.derived(Collectives)
    if name in known.barriers:
        return not _is_conditional(place.module, place.node, loop)
    if not context.calls and _is_conditional(module, call, loop):
        return False
    if name not in known.reductions:
        return context.role is Role.STEP and not context.calls and is_only_shown(module, call, context.loop, project)
    return context.role is Role.EVAL or only_logged(module, call, place, context.loop, project)


def _is_conditional(module: ModuleIndex, node: ast.AST, loop: ast.AST) -> bool:
    """Return whether a place runs in some steps only. Each step of the optimizer is one, and a batch is rarely None."""
    tests = conditions(module, node, loop)
    return any(not (is_of_processes(module, test) or _is_usual(test, holds)) for test, holds in tests)


def _is_usual(test: ast.expr, holds: bool) -> bool:
    match test:
        case ast.Attribute(attr="sync_gradients"):
            return holds
        case ast.Compare(left=ast.Name(), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return not holds
    return False


def _decides(place: NodeRef) -> bool:
    """Return whether its result is a condition that all processes must agree on (``if accelerator.check_trigger():
    break``)."""
    up = place.module.syntax.parents.get(place.node)
    return isinstance(up, ast.If | ast.While) and up.test is place.node


def _finding(
    name: str, is_barrier: bool, place: NodeRef, contexts: list[LoopContext], primitive: NodeRef | None = None
) -> Finding:
    related = [
        Place(context.loop.module.path, _header(context.loop), f"in this {context.role.value} loop")
        for context in contexts[:3]
    ]
    if primitive is not None and primitive.node is not place.node:
        assert isinstance(primitive.node, ast.expr)
        related.append(
            Place(primitive.module.path, primitive.module.syntax.span(primitive.node), f"{name} happens here")
        )
    every = "training step" if any(context.role is Role.STEP for context in contexts) else "evaluation batch"
    assert isinstance(place.node, ast.expr)
    return RULE.finding(
        place.module.path,
        place.module.syntax.span(place.node),
        f"{name} makes all processes wait in every {every}",
        help="remove the barrier"
        if is_barrier
        else "sum on the device and reduce every N steps or once after the loop",
        related=tuple(related),
        payload=EveryStep(
            place,
            primitive is None or primitive.node is place.node,
            is_barrier,
            frozenset(context.role for context in contexts),
            tuple(dict.fromkeys(context.calls[0] if context.calls else place for context in contexts)),
        ),
    )


def _header(loop: NodeRef) -> Span:
    node = loop.node
    syntax = loop.module.syntax
    if isinstance(node, ast.For | ast.AsyncFor):
        return syntax.span(node.iter)
    assert isinstance(node, ast.stmt)
    return syntax.span(node)


def _may_fire(gate: Gate) -> bool:
    known = gate.models.derived(Collectives)
    return gate.calls(known.names - {"join"}) or gate.has_any(tuple(row.asked for row in known.logs.values()))


RULE = Rule(
    code="GPU354",
    name="collective-every-iteration",
    category=Category.DATA_EXCHANGE,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=(gate_words("collective"),),
    reads=("collective",),
    may_fire=_may_fire,
    summary="collective operation in every iteration for logging",
    why="each collective waits for the slowest process; only gradients need one per step",
    evidence=(Evidence("data exchange: 7.1% of 706 issues"),),
    check=check,
    cost=Cost("collective"),
    fix=Safety.UNSAFE,
    bad="""\
for images, labels in loader:
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss)
""",
    good="""\
for step, (images, labels) in enumerate(loader):
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        dist.all_reduce(loss)
""",
    references=("https://pytorch.org/docs/stable/distributed.html#collective-functions",),
)
