"""What it detects
Gradient accumulation in a program that wraps its model in DDP or FSDP while every micro-step still exchanges
gradients (no ``no_sync``), and Horovod's ``DistributedOptimizer`` with neither ``backward_passes_per_step`` above 1
nor compression.

Knows PyTorch's DDP and FSDP, and Horovod. A module that mentions DeepSpeed, ``Accelerator`` or ``LightningModule``, or
calls ``accumulate``, is left alone, because these skip exchanges themselves.

Why it costs GPU time
Without ``no_sync`` every ``backward`` all-reduces all gradients, although only the last one before
``optimizer.step()`` has to. Data exchange makes up 7.1 % of the study's 706 issues.

When it is right not to change
Accelerate's ``accumulate``, DeepSpeed, Lightning and Fabric skip the exchange themselves. Under FSDP ``no_sync``
keeps unsharded gradients, which costs memory.

Fix safety
Unsafe: sums are rounded in another order. Under DDP a line at the start of the loop tells the model whether this
micro-step exchanges gradients (``require_backward_grad_sync``, which is what ``no_sync`` sets). Horovod gets
``backward_passes_per_step`` where the loop shows how many there are, else compression, which rounds gradients to
float16. Under FSDP there is advice, since skipping costs memory. Nothing is changed where gradients are clipped or
unscaled in every micro-step.

References
https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync
https://horovod.readthedocs.io/en/stable/api.html
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.facts.arguments import Passed
from gpulint.facts.collectives import wraps_in_ddp
from gpulint.facts.conditions import conditions
from gpulint.facts.roles import Role
from gpulint.facts.scopes import LoopNode, ModuleScopes, last_name
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule

_SKIPS = frozenset(
    {
        b"no_sync",
        b"no_backward_sync",
        b"disable_allreduce",
        b"disable_need_reduction",
        b"require_backward_grad_sync",
        b"set_requires_gradient_sync",
        b"deepspeed",
        b"Accelerator",
        b"LightningModule",
    }
)


_MICRO_STEPS = re.compile(r"accum|micro_?(batch|step)", re.IGNORECASE)
_MICRO_STEP = """\
skip the exchange in all but the last micro-step (forward and backward pass together):
with contextlib.nullcontext() if {last} else {model}.no_sync():
    ...
    {backward}"""


@dataclass(frozen=True, slots=True)
class Accumulation:
    """A loop that accumulates gradients; ``last`` tests for its last micro-step, None if there is no one test."""

    loop: LoopNode
    backward: ast.Call
    step: ast.Call
    last: ast.expr | None
    model: ast.expr | None
    """What the loop calls and is wrapped in DDP or FSDP."""


@dataclass(frozen=True, slots=True)
class HorovodOptimizer:
    """Horovod's wrapper, by its qualified names."""

    call: ast.Call
    names: frozenset[str]


def check(document: Document, project: Project) -> Iterator[Finding]:
    scopes = project.scopes(document)
    if scopes is None:
        return
    yield from _horovod(document, scopes, project)
    if project.words.of(document.path) & _SKIPS or "accumulate" in scopes.calls_by_name:
        return
    for loop in scopes.loops:
        calls = project.loops.calls_in(scopes, loop)
        backwards = [call for call in calls if last_name(call.func) == "backward"]
        if not backwards:
            continue
        step = _update(project, scopes, loop)
        if step is None:
            continue
        backward = next((call for call in backwards if not _exclude(scopes, call, step, loop)), None)
        if backward is None or project.guards.periodic(scopes, backward, loop):
            continue
        if wraps_in_ddp(scopes, project):
            last = _last_step(scopes, step, loop)
            model = _wrapped(project, scopes, calls)
            yield RULE.finding(
                document.path,
                scopes.module.span(backward),
                "gradients are exchanged in every micro-step of an accumulation",
                help=_MICRO_STEP.format(
                    last=ast.unparse(last) if last is not None else "last",
                    model=ast.unparse(model) if model is not None else "model",
                    backward=ast.unparse(backward),
                ),
                payload=Accumulation(loop, backward, step, last, model),
                related=(Place(document.path, scopes.module.span(step), "parameters are only updated here"),),
            )


def _update(project: Project, scopes: ModuleScopes, loop: LoopNode) -> ast.Call | None:
    """Where the parameters are updated for several rounds of a loop: seldom in it, or after each pass of a loop over
    micro-steps (``for i in range(accumulation_steps)``) in the training loop around that."""
    calls = [call for call in project.loops.calls_in(scopes, loop) if _updates(call)]
    if project.loops.role(scopes, loop) is Role.STEP:
        found = next((call for call in calls if _is_seldom(project, scopes, call, loop)), None)
        if found is not None:
            return found
    outer = next((around for around in project.loops.around(scopes, loop) if around is not loop), None)
    if calls or outer is None or not _counts_micro_steps(loop):
        return None
    return next((call for call in project.loops.calls_in(scopes, outer) if _updates(call)), None)


def _counts_micro_steps(loop: LoopNode) -> bool:
    match loop:
        case ast.For(iter=ast.Call(func=ast.Name(id="range" | "trange"), args=[*_, steps])):
            return bool(_MICRO_STEPS.search(ast.unparse(steps)))
    return False


def _updates(call: ast.Call) -> bool:
    return (
        last_name(call.func) == "step"
        and isinstance(call.func, ast.Attribute)
        and any(word in last_name(call.func.value).lower() for word in ("optim", "scaler", "opt"))
    )


def _is_seldom(project: Project, scopes: ModuleScopes, step: ast.Call, loop: LoopNode) -> bool:
    """Are parameters updated every so many iterations, or as many as an option says that is 1 unless somebody sets
    it?"""
    if project.guards.periodic(scopes, step, loop):
        return True
    last = _last_step(scopes, step, loop)
    parts = walk(last) if last is not None else ()
    return any(
        isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) and not isinstance(part.right, ast.Constant)
        for part in parts
    )


def _exclude(scopes: ModuleScopes, one: ast.AST, other: ast.AST, loop: LoopNode) -> bool:
    """Do two calls stand in different branches of one condition?"""
    tests = dict(conditions(scopes, one, loop))
    return any(tests.get(test, holds) is not holds for test, holds in conditions(scopes, other, loop))


def _last_step(scopes: ModuleScopes, step: ast.Call, loop: LoopNode) -> ast.expr | None:
    """The test on the counter under which parameters are updated."""
    for test, holds in conditions(scopes, step, loop):
        if holds and any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) for part in walk(test)):
            return test
    return None


def _wrapped(project: Project, scopes: ModuleScopes, calls: list[ast.Call]) -> ast.expr | None:
    for call in calls:
        if isinstance(call.func, ast.Name | ast.Attribute):
            origins = [ref.node for ref in project.resolver.origins(scopes, call.func)]
            made = {last_name(node.func) for node in origins if isinstance(node, ast.Call)}
            if made & {"DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP"}:
                return call.func
    return None


def _horovod(document: Document, scopes: ModuleScopes, project: Project) -> Iterator[Finding]:
    for name in ("DistributedOptimizer", "DistributedGradientTape"):
        for call in scopes.calls_by_name.get(name, []):
            if not any(found.startswith("horovod.") for found in project.resolver.call_names(scopes, call)):
                continue
            passes = project.arguments.of(scopes, call, "backward_passes_per_step")
            once = passes.is_absent or project.arguments.value(scopes, call, "backward_passes_per_step").every(
                lambda value: value == 1
            )
            if once and project.arguments.of(scopes, call, "compression").passed is Passed.NEVER:
                yield RULE.finding(
                    document.path,
                    scopes.module.span(call),
                    f"hvd.{name} exchanges full-precision gradients after every backward pass",
                    help="pass `compression=hvd.Compression.fp16`, or accumulate with `backward_passes_per_step=N`",
                    severity=Severity.INFO,
                    payload=HorovodOptimizer(call, frozenset(project.resolver.call_names(scopes, call))),
                )


RULE = Rule(
    code="GPU353",
    name="no-gradient-sync-skipping",
    category=Category.DATA_EXCHANGE,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=(("backward", "DistributedOptimizer", "DistributedGradientTape"),),
    summary="gradients are exchanged more often than they are used",
    why=(
        "every backward pass under DDP all-reduces all gradients; accumulation needs it only once (data "
        "exchange: 7.1 % of the study's 706 issues)"
    ),
    evidence=(Evidence("data exchange: 7.1 % of 706 issues"),),
    check=check,
    fix=Safety.UNSAFE,
    bad="""\
for step, batch in enumerate(loader):
    (ddp_model(batch).loss / 4).backward()
    if (step + 1) % 4 == 0:
        optimizer.step()
""",
    good="""\
for step, batch in enumerate(loader):
    last = (step + 1) % 4 == 0
    with nullcontext() if last else ddp_model.no_sync():
        (ddp_model(batch).loss / 4).backward()
    if last:
        optimizer.step()
""",
    references=("https://pytorch.org/docs/stable/notes/ddp.html",),
)
