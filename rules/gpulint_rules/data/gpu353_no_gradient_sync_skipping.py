"""What it detects
Gradient accumulation in a program that wraps its model in DDP or FSDP while every micro-step still exchanges
gradients (no ``no_sync``), and Horovod's ``DistributedOptimizer`` with neither ``backward_passes_per_step`` above 1
nor compression.

Knows PyTorch's DDP and FSDP, and Horovod. A module that mentions DeepSpeed, ``Accelerator``, ``LightningModule`` or
``accumulate`` is left alone, because these skip exchanges themselves.

Why it costs GPU time
Without ``no_sync`` every ``backward`` all-reduces all gradients, although only the last one before
``optimizer.step()`` has to. Data exchange makes up 7.1 % of the study's 706 issues.

When it is right not to change
Accelerate's ``accumulate``, DeepSpeed, Lightning and Fabric skip the exchange themselves. Under FSDP ``no_sync``
keeps unsharded gradients, which costs memory.

Fix safety
Advice only: the order of floating-point sums changes, and under FSDP memory grows.

References
https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync
https://horovod.readthedocs.io/en/stable/api.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.base import Document
from gpulint.facts.arguments import Passed
from gpulint.facts.collectives import wraps_in_ddp
from gpulint.facts.loops import Role
from gpulint.facts.scopes import ModuleScopes, last_name
from gpulint.finding import Finding, Place, Severity
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule

_SKIPS = frozenset(
    {
        b"no_sync",
        b"no_backward_sync",
        b"accumulate",
        b"require_backward_grad_sync",
        b"set_requires_gradient_sync",
        b"deepspeed",
        b"Accelerator",
        b"LightningModule",
    }
)


def check(document: Document, project: Project) -> Iterator[Finding]:
    scopes = project.scopes(document)
    if scopes is None:
        return
    yield from _horovod(document, scopes, project)
    if project.words(document.path) & _SKIPS:
        return
    for loop in scopes.loops:
        calls = project.loops.calls_in(scopes, loop)
        backward = next((call for call in calls if last_name(call.func) == "backward"), None)
        if backward is None or project.loops.role(scopes, loop) is not Role.STEP:
            continue
        step = next((call for call in calls if _updates(call) and project.guards.periodic(scopes, call, loop)), None)
        if step is None or project.guards.periodic(scopes, backward, loop):
            continue
        if wraps_in_ddp(scopes, project):
            yield RULE.finding(
                document.path,
                scopes.module.span(backward),
                "gradients are exchanged in every micro-step of an accumulation",
                help="run the micro-steps before the last one under `with model.no_sync():`",
                related=(Place(document.path, scopes.module.span(step), "parameters are only updated here"),),
            )


def _updates(call: ast.Call) -> bool:
    return (
        last_name(call.func) == "step"
        and isinstance(call.func, ast.Attribute)
        and any(word in last_name(call.func.value).lower() for word in ("optim", "scaler", "opt"))
    )


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
