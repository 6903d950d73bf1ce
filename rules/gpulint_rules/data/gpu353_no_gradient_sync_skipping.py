"""What it detects
Gradient accumulation in a program that wraps its model in DDP or FSDP while every micro-step still exchanges gradients
(no ``no_sync``), also in a loop over parts of the batch, or by a scaler that does the backward pass and decides by an
argument when to update (``loss_scaler(loss, optimizer, update_grad=...)``); and Horovod's ``DistributedOptimizer`` with
neither ``backward_passes_per_step`` above 1 nor compression.

Recognizes PyTorch's DDP and FSDP, and Horovod. A module that mentions DeepSpeed, ``Accelerator`` or
``LightningModule``, or calls ``accumulate``, is left alone, because these skip exchanges themselves.

Why it costs GPU time
Without ``no_sync`` every ``backward`` all-reduces all gradients, although only the last one before
``optimizer.step()`` has to. Data exchange accounts for 7.1% of the study's 706 issues.

When to ignore this rule
Accelerate's ``accumulate``, DeepSpeed, Lightning and Fabric skip the exchange themselves. Under FSDP ``no_sync``
keeps unsharded gradients, which costs memory.

Fix safety
Unsafe: gradients are summed in another order, which changes rounding. Under DDP a line at the start of the loop tells
the model whether this micro-step exchanges gradients (``require_backward_grad_sync``, which is what ``no_sync`` sets).
Horovod gets ``backward_passes_per_step`` where the loop shows how many there are, else compression, which rounds
gradients to float16. Under FSDP there is advice, since skipping costs memory. Nothing is changed where gradients are
clipped or unscaled in every micro-step.

References
https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync
https://horovod.readthedocs.io/en/stable/api.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.single_gpu import only_as_one_process
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.collectives import WRAPPERS, wraps_in_ddp
from gpulint.training.gradient_accumulation import Accumulation, accumulations, in_one_process, own_length
from gpulint.values.arguments import Arguments, ArgumentState
from gpulint.workspace.module_index import ModuleIndex, last_name, source_text

MAX_USERS = 10
"""Most programs of a module that are asked how they wrap its model."""
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
        b"ddp_comm_hooks",
        b"register_comm_hook",
        b"PeriodicModelAverager",
        b"_set_static_graph",
    }
)
"""Words of programs that skip the exchange, leave it to a framework, compress it, or cannot skip it."""


_MICRO_STEP = """\
skip the exchange in all but the last micro-step (forward and backward pass together):
with contextlib.nullcontext() if {last} else {model}.no_sync():
    ...
    {backward}"""

_OWN = "\nAll processes must skip the same exchanges: `{}` may differ between them."
_SHARDED = "if the unsharded gradients, as many bytes as the trained parameters, fit on each GPU, "
_HANDS = (ast.Call, ast.keyword, ast.Assign, ast.Tuple, ast.List, ast.Dict)
"""What a name hands its value on in."""
_FSDP = frozenset({"FullyShardedDataParallel", "FSDP"})


@dataclass(frozen=True, slots=True)
class HorovodOptimizer:
    """Horovod's wrapper, by its qualified names."""

    call: ast.Call
    names: frozenset[str]


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None or project.fact(GpuPrograms).is_elsewhere(module):
        return
    yield from _horovod(document, module, project)
    if project.word_index.of(document.path) & _SKIPS or "accumulate" in module.calls_by_name:
        return
    if _is_static(project, module) or _is_of_apex(project, module):
        return
    for found in accumulations(project, module):
        if not wraps_in_ddp(module, project) or in_one_process(project, module, found):
            continue
        if _wraps_another(module, found):
            continue
        if not only_as_one_process(project, document.path):
            sharded, own = _is_sharded(module, found, project), own_length(module, found)
            micro_step = _MICRO_STEP.format(
                last=ast.unparse(found.last) if found.last is not None and own is None else "last",
                model=ast.unparse(found.model) if found.model is not None else _wrapped_name(module, found),
                backward=ast.unparse(found.backward),
            )
            yield RULE.finding(
                document.path,
                module.syntax.span(found.backward),
                "FSDP reduce-scatters the gradients in every micro-step of an accumulation"
                if sharded
                else "gradients are exchanged in every micro-step of an accumulation",
                help=_SHARDED + micro_step
                if sharded
                else micro_step + (_OWN.format(own) if own is not None else "") + _unless_wrapped(project, module),
                cost=Cost("gradient-exchange", assumed="assuming memory for unsharded gradients") if sharded else None,
                payload=found,
                related=(Place(document.path, module.syntax.span(found.step), "parameters are only updated here"),),
            )


def _is_static(project: Project, module: ModuleIndex) -> bool:
    """Return whether DDP may record a static graph, where the module or another one wraps a model: ``no_sync`` raises
    an error then.

    https://github.com/pytorch/pytorch/issues/143580
    """
    own = any(name in module.calls_by_name for name in WRAPPERS)
    paths = [module.path] if own else sorted(project.python_files_with(b"static_graph"))
    modules = (project.module_at(path) for path in paths)
    return any(
        keyword.arg == "static_graph" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
        for where in modules
        if where is not None
        for name in WRAPPERS
        for call in where.calls_by_name.get(name, ())
        for keyword in call.keywords
    )


def _is_of_apex(project: Project, module: ModuleIndex) -> bool:
    """Return whether the module, or else each one that names DDP, wraps its models in the DDP of apex, which has no
    ``no_sync``."""
    paths = [module.path]
    if not any(name in module.calls_by_name for name in WRAPPERS):
        paths = sorted(project.python_files_with(b"DistributedDataParallel"))
    modules = [found for path in paths if (found := project.module_at(path)) is not None]
    calls = [(where, call) for where in modules for name in WRAPPERS for call in where.calls_by_name.get(name, ())]
    names = [project.fact(Resolver).call_names(where, call) for where, call in calls]
    return bool(names) and all(found and all(name.startswith("apex.") for name in found) for found in names)


def _wraps_another(module: ModuleIndex, found: Accumulation) -> bool:
    """Return whether the function of the loop wraps models of its own, and the loop names none of them."""
    calls = [call for name in sorted(WRAPPERS) for call in module.calls_by_name.get(name, ())]
    statements = [module.syntax.parents.get(call) for call in calls]
    if not statements or any(module.function(call) is not module.function(found.loop) for call in calls):
        return False
    targets = {ast.unparse(one.targets[0]) for one in statements if isinstance(one, ast.Assign)}
    inside = set(walk(found.loop))
    named = {ast.unparse(part) for part in inside if isinstance(part, ast.Name | ast.Attribute)}
    handed = any(
        isinstance(up := module.syntax.parents.get(use), _HANDS) and up not in calls and use not in inside
        for target in targets
        for use in module.uses.get(target, ())
    )
    return all(isinstance(one, ast.Assign) for one in statements) and not handed and targets.isdisjoint(named)


def _wrapped_name(module: ModuleIndex, found: Accumulation) -> str:
    """Return what the module calls a model that it wraps, by which the loop may know it as well."""
    calls = (call for name in sorted(WRAPPERS) for call in module.calls_by_name.get(name, ()))
    statements = (module.syntax.parents.get(call) for call in calls)
    targets = {ast.unparse(one.targets[0]) for one in statements if isinstance(one, ast.Assign)}
    named = {ast.unparse(part) for part in walk(found.loop) if isinstance(part, ast.Name | ast.Attribute)}
    known = targets & named
    return known.pop() if len(known) == 1 else "model"


def _unless_wrapped(project: Project, module: ModuleIndex) -> str:
    """Return what to add where the model may be one that nothing wraps, here or in the programs that import the module,
    which has no ``no_sync``."""
    users = project.fact(GpuPrograms).users(module.path)
    homes = [module, *(found for path in islice(users, MAX_USERS) if (found := project.module_at(path)) is not None)]
    wraps = [(home, call) for home in homes for name in sorted(WRAPPERS) for call in home.calls_by_name.get(name, ())]
    if any(
        any("__main__" not in source_text(home, test) for test, _ in conditions(home, call)) for home, call in wraps
    ):
        return "\nWithout DDP, the model has no `no_sync()`: test for that as well."
    return ""


def _is_sharded(module: ModuleIndex, found: Accumulation, project: Project) -> bool:
    """Return whether FSDP wraps the model: ``no_sync`` then keeps whole gradients on each GPU."""
    origins = project.fact(Resolver).points_to(module, found.model) if found.model is not None else ()
    makers = {last_name(origin.node.func) for origin in origins if isinstance(origin.node, ast.Call)} & WRAPPERS
    return bool(makers) and makers <= _FSDP


def _horovod(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    for name in ("DistributedOptimizer", "DistributedGradientTape"):
        for call in module.calls_by_name.get(name, []):
            if not any(found.startswith("horovod.") for found in project.fact(Resolver).call_names(module, call)):
                continue
            passes = project.fact(Arguments).of(module, call, "backward_passes_per_step")
            once = passes.is_absent or project.fact(Arguments).value(module, call, "backward_passes_per_step").every(
                lambda value: value == 1
            )
            if once and project.fact(Arguments).of(module, call, "compression").passed is ArgumentState.NEVER:
                yield RULE.finding(
                    document.path,
                    module.syntax.span(call),
                    f"hvd.{name} exchanges full-precision gradients after every backward pass",
                    help="pass `compression=hvd.Compression.fp16`, or accumulate with `backward_passes_per_step=N`",
                    severity=Severity.INFO,
                    payload=HorovodOptimizer(call, frozenset(project.fact(Resolver).call_names(module, call))),
                )


RULE = Rule(
    code="GPU353",
    name="no-gradient-sync-skipping",
    category=Category.DATA_EXCHANGE,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=(("backward", "update_grad", "need_update", "DistributedOptimizer", "DistributedGradientTape"),),
    summary="gradients are exchanged more often than they are used",
    why="every backward pass under DDP all-reduces all gradients; accumulation needs it only once",
    evidence=(Evidence("data exchange: 7.1% of 706 issues"),),
    check=check,
    cost=Cost("gradient-exchange"),
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
