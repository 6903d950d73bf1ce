"""What it detects
``all_reduce``, ``reduce``, ``all_gather``, ``gather`` or ``barrier`` (torch.distributed, Horovod, Accelerate, Fabric)
in every training iteration for values that only get logged, or per batch of an evaluation loop, also inside helpers.

Knows also torch_xla; PyTorch loops and the hooks of Lightning modules, Hugging Face trainers, callbacks (Lightning,
Keras), SpeechBrain brains, Ignite engines and MMCV's models.

Why it costs GPU time
Every collective waits for the slowest process. Gradients need one per step; a loss that is only printed does not.
Data exchange makes up 7.1% of the study's 706 issues.

When it is right not to change
The collective is part of the algorithm: contrastive losses gather embeddings, some schemes scale gradients by a
global count. Collectives before the backward pass whose result may enter the loss are not reported.

Fix safety
Advice only: accumulate on the device and reduce every N steps or once per epoch.

References
https://pytorch.org/docs/stable/distributed.html#collective-functions
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.base import Document
from gpulint.facts.collectives import BARRIERS, GATHERS, REDUCTIONS, collective
from gpulint.facts.guards import is_benchmark
from gpulint.facts.loops import Context
from gpulint.facts.reduced import is_averaged, is_only_shown, only_logged
from gpulint.facts.roles import Role
from gpulint.facts.scopes import ModuleScopes, Ref, last_name
from gpulint.finding import Finding, Place, Severity
from gpulint.gate import Gate
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.source import Span


def check(document: Document, project: Project) -> Iterator[Finding]:
    scopes = project.scopes(document)
    if scopes is None or is_benchmark(scopes.path):
        return
    told = set[ast.AST]()
    for call in scopes.calls:
        if last_name(call.func) in GATHERS and not is_averaged(scopes, call):
            continue  # it may well feed the loss or the metric
        name = collective(scopes, call, project)
        contexts = project.loops.contexts(scopes, call) if name else ()
        found = [context for context in contexts if _wasteful(name, scopes, call, context, project)]
        if found and len(found) == len(contexts):
            yield _finding(name, Ref(scopes, call), found)
            continue
        # A helper that is also called where it does no harm: the calls in the loops are to blame.
        for context in found:
            if context.calls and context.calls[0].node in told:
                continue  # it reaches several collectives
            told.update(call.node for call in context.calls[:1])
            yield _finding(name, context.calls[0] if context.calls else Ref(scopes, call), [context], Ref(scopes, call))


def _wasteful(name: str, scopes: ModuleScopes, call: ast.Call, context: Context, project: Project) -> bool:
    place = context.calls[0] if context.calls else Ref(scopes, call)
    loop = context.loop.node
    if context.role not in (Role.STEP, Role.EVAL) or isinstance(loop, ast.While):
        return False
    for ref in (Ref(scopes, call), *context.calls):
        if project.guards.periodic(ref.scopes, ref.node) or project.guards.off_by_default(ref.scopes, ref.node, loop):
            return False
        if project.guards.once(ref.scopes, ref.node) or _decides(ref):
            return False
    if name in BARRIERS:
        return not project.guards.conditional(place.scopes, place.node, loop)
    if not context.calls and project.guards.conditional(scopes, call, loop):
        return False
    if name not in REDUCTIONS:
        return context.role is Role.STEP and not context.calls and is_only_shown(scopes, call, context.loop, project)
    return context.role is Role.EVAL or only_logged(scopes, call, place, context.loop, project)


def _decides(place: Ref) -> bool:
    """Is its result a condition that all processes must agree on (``if accelerator.check_trigger(): break``)?"""
    up = place.scopes.module.parents.get(place.node)
    return isinstance(up, ast.If | ast.While) and up.test is place.node


def _finding(name: str, place: Ref, contexts: list[Context], primitive: Ref | None = None) -> Finding:
    related = [
        Place(context.loop.scopes.path, _header(context.loop), f"in this {context.role.value} loop")
        for context in contexts[:3]
    ]
    if primitive is not None and primitive.node is not place.node:
        assert isinstance(primitive.node, ast.expr)
        related.append(
            Place(primitive.scopes.path, primitive.scopes.module.span(primitive.node), f"{name} happens here")
        )
    every = "training step" if any(context.role is Role.STEP for context in contexts) else "evaluation batch"
    assert isinstance(place.node, ast.expr)
    return RULE.finding(
        place.scopes.path,
        place.scopes.module.span(place.node),
        f"{name} makes all processes wait in every {every}",
        help="remove the barrier"
        if name in BARRIERS
        else "sum on the device and reduce every N steps or once after the loop",
        related=tuple(related),
    )


def _header(loop: Ref) -> Span:
    node = loop.node
    module = loop.scopes.module
    if isinstance(node, ast.For | ast.AsyncFor):
        return module.span(node.iter)
    assert isinstance(node, ast.stmt)
    return module.span(node)


def _may_fire(gate: Gate) -> bool:
    return gate.calls((REDUCTIONS | BARRIERS | GATHERS) - {"join"})


RULE = Rule(
    code="GPU354",
    name="collective-every-iteration",
    category=Category.DATA_EXCHANGE,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=(("reduce", "allreduce", "barrier", "wait_for_everyone", "allreduce_", "gather"),),
    may_fire=_may_fire,
    summary="collective operation in every iteration for logging",
    why=(
        "each collective waits for the slowest process; only gradients need one per step (data exchange: 7.1% "
        "of the study's 706 issues)"
    ),
    evidence=(Evidence("data exchange: 7.1% of 706 issues"),),
    check=check,
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
