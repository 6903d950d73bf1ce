"""What it detects
``all_reduce``, ``reduce``, ``all_gather``, ``gather`` or ``barrier`` (torch.distributed, Horovod, Accelerate, Fabric)
in every training iteration for values that only get logged, or per batch of an evaluation loop, also inside helpers.

Knows also torch_xla; PyTorch loops and the hooks of Lightning modules, Hugging Face trainers, callbacks (Lightning,
Keras), SpeechBrain brains, Ignite engines and MMCV's models.

Why it costs GPU time
Every collective waits for the slowest process. Gradients need one per step; a loss that is only printed does not.
Data exchange makes up 7.1 % of the study's 706 issues.

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
import re
from collections.abc import Iterator

from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.facts.collectives import BARRIERS, GATHERS, REDUCTIONS, collective
from gpulint.facts.guards import is_benchmark
from gpulint.facts.loops import Context
from gpulint.facts.roles import Role
from gpulint.facts.scopes import FUNCTIONS, ModuleScopes, Ref, last_name
from gpulint.finding import Finding, Place, Severity
from gpulint.gate import Gate
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.source import Span

_DETACHED = frozenset({"item", "detach", "data", "cpu", "clone"})
_MEANS = frozenset({"mean", "nanmean", "sum"})
_MEASURE = re.compile(r"(^|_)(loss|losses|acc\d*|accuracy|prec\d*|metrics?|correct)(_|$)", re.IGNORECASE)
_GRADIENT = re.compile(r"(^|_)(grad|grads|gradient|gradients)$", re.IGNORECASE)


def check(document: Document, project: Project) -> Iterator[Finding]:
    scopes = project.scopes(document)
    if scopes is None or is_benchmark(scopes.path):
        return
    told = set[ast.AST]()
    for call in scopes.calls:
        if last_name(call.func) in GATHERS and not _is_averaged(scopes, call):
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
        return context.role is Role.STEP and not context.calls and _is_only_shown(scopes, call, context, project)
    return context.role is Role.EVAL or _only_logged(scopes, call, place, context, project)


def _decides(place: Ref) -> bool:
    """Is its result a condition that all processes must agree on (``if accelerator.check_trigger(): break``)?"""
    up = place.scopes.module.parents.get(place.node)
    return isinstance(up, ast.If | ast.While) and up.test is place.node


def _only_logged(scopes: ModuleScopes, call: ast.Call, place: Ref, context: Context, project: Project) -> bool:
    """Is the reduced value cut off from the graph, or the reduction placed after the gradients are applied?"""
    given = [node.args[0] for node in (place.node, call) if isinstance(node, ast.Call) and node.args]
    if any(_GRADIENT.search(last_name(part)) for value in given for part in walk(value) if isinstance(part, ast.expr)):
        return False  # training itself: gradients are averaged by hand
    after = _follows_the_step(place, context, project)
    if place.node is not call and not after and _gives_on(place, given):
        return False
    if any(map(_is_detached, given)):
        return True
    if _was_detached(scopes, call) and any(_is_measure(part) for value in given for part in walk(value)):
        return True
    if project.guards.no_grad(place.scopes, place.node):
        return True
    if place.node is not call and project.guards.no_grad(scopes, call) and any(map(_is_measure, given[:1])):
        return True
    return after


def _is_detached(value: ast.AST) -> bool:
    return any(last_name(part) in _DETACHED for part in walk(value) if isinstance(part, ast.expr))


def _was_detached(scopes: ModuleScopes, call: ast.Call) -> bool:
    """Does the reduction get a name whose last value before it is cut off from the graph (``loss =
    loss.data.clone()``)?"""
    for name in (part for given in call.args[:1] for part in walk(given) if isinstance(part, ast.Name)):
        made = [one for one in scopes.scope(name).lookup(name.id) if getattr(one.node, "lineno", 1 << 30) < name.lineno]
        last = max(made, key=lambda one: getattr(one.node, "lineno", 0), default=None)
        if last is not None and last.value is not None and not last.path and _is_detached(last.value):
            return True
    return False


def _is_averaged(scopes: ModuleScopes, call: ast.Call) -> bool:
    """``accelerator.gather(loss.repeat(size)).mean()``"""
    given = call.args[0] if call.args else None
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute):
        given = given.func.value
    mean = scopes.module.parents.get(call)
    return given is not None and _is_measure(given) and isinstance(mean, ast.Attribute) and mean.attr in _MEANS


def _is_only_shown(scopes: ModuleScopes, call: ast.Call, context: Context, project: Project) -> bool:
    """Are no gradients taken of the average that a gather is for?"""
    for up in scopes.module.ancestors(call):
        if isinstance(up, ast.Attribute) and up.attr in _DETACHED:
            return True
        if isinstance(up, ast.Assign):
            named = {part.id for target in up.targets for part in walk(target) if isinstance(part, ast.Name)}
            steps = [step for step in project.loops.calls_in(scopes, context.loop.node) if _is_backward(step)]
            used = {part.id for step in steps for part in walk(step) if isinstance(part, ast.Name)}
            return bool(named and steps) and not named & used
        if isinstance(up, ast.stmt):
            return False
    return False


def _is_backward(call: ast.Call) -> bool:
    return last_name(call.func) == "backward"


def _follows_the_step(place: Ref, context: Context, project: Project) -> bool:
    """Does it stand after the gradients are applied, in the same loop?"""
    if isinstance(context.loop.node, FUNCTIONS):
        return False
    steps = [
        step
        for step in project.loops.calls_in(place.scopes, context.loop.node)
        if project.loops.is_step(place.scopes, step)
    ]
    line = getattr(place.node, "lineno", 0)
    return bool(steps) and line > max(step.lineno for step in steps)


def _gives_on(place: Ref, given: list[ast.expr]) -> bool:
    """Does a helper give back something else than a measure (``targets = sinkhorn(scores)``), which the loss needs?"""
    if any(map(_is_measure, given)):
        return False
    inner: ast.AST = place.node
    for up in place.scopes.module.ancestors(place.node):
        if isinstance(up, ast.Assign):
            names = [part for target in up.targets for part in walk(target) if isinstance(part, ast.Name)]
            return inner is up.value and not any(map(_is_measure, names))
        if isinstance(up, ast.stmt):
            return False
        inner = up
    return False


def _is_measure(value: ast.AST) -> bool:
    """Is it a loss or a metric? A copy of one that is reduced without gradients is only shown."""
    return isinstance(value, ast.expr) and bool(_MEASURE.search(last_name(value)))


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
        help="drop the barrier"
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
        "each collective waits for the slowest process; only gradients need one per step (data exchange: 7.1 % "
        "of the study's 706 issues)"
    ),
    evidence=(Evidence("data exchange: 7.1 % of 706 issues"),),
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
