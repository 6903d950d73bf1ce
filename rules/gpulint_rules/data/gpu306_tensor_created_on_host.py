"""What it detects
A tensor that is made in host memory and moved to the GPU at once, in a training or evaluation loop:
``torch.zeros(n).to(device)``, ``torch.tensor(x).cuda()``, ``torch.randn(n, k).cuda()``; also after a change of
shape (``torch.arange(n).unsqueeze(0).cuda()``) or filled in place (``torch.FloatTensor(n, 1).uniform_().cuda()``).

Recognizes PyTorch loops and the hooks of Lightning modules, Hugging Face trainers, callbacks (Lightning, Keras),
SpeechBrain brains and Ignite engines.

Why it costs GPU time
The host fills the tensor and then waits for a copy from pageable memory, at every iteration, where the GPU could
have filled it itself. Inefficient host-GPU data transfer is the most frequent category of the study: 27.9% of 706
issues in 400 jobs.

When to ignore this rule
Random numbers must be those of the CPU generator, so that runs on different machines agree.

Fix safety
Safe for constant values, which stay the same. Unsafe for random numbers, because the GPU's generator draws different
ones, and for ``linspace``, which a GPU may round differently.

References
https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#create-tensors-directly-on-the-target-device
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.cpu_models import trains_on_host
from gpulint.placement.device_transfers import DeviceTransfers, Transfer
from gpulint.placement.devices import Device
from gpulint.placement.kept_on_gpu import sets_default_device
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.path_conditions import contexts_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContext, LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import LOOPS, ModuleIndex, last_name
from gpulint_rules.data.branch_chances import is_seldom
from gpulint_rules.data.counted_tensors import is_of_counter
from gpulint_rules.data.empty_tensors import is_empty
from gpulint_rules.data.filled_tensors import OF_TYPE, made_and_filled
from gpulint_rules.data.read_back import is_only_read_back, is_read_back
from gpulint_rules.data.tensor_costs import cost
from gpulint_rules.data.wait_counts import outermost_loop

_CONSTANT = frozenset(
    "torch.zeros torch.ones torch.full torch.empty torch.eye torch.arange torch.linspace torch.tensor "
    "torch.zeros_like torch.ones_like torch.full_like torch.empty_like".split()
)
_RANDOM = frozenset(
    "torch.rand torch.randn torch.randint torch.randperm torch.normal "
    "torch.rand_like torch.randn_like torch.randint_like".split()
)
_CONSTRUCTORS = frozenset({"self", "range", "list", "len", "float", "int"})
_COPIED = (0.0002, 0.003)
"""Seconds for values that have to come from the host in any case (assumed, as a wait that is needed)."""
_TIME = regex.compile(r"\brange\(|time|step|sigma", re.IGNORECASE)
"""What a sampler goes through."""


@dataclass(frozen=True, slots=True)
class OnHost:
    """The call that makes the tensor, the transfer around it, and whether the values are random."""

    made: ast.Call
    transfer: Transfer
    random: bool
    counted: bool = False
    """Whether it holds the number of the round of an inner loop."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None:
        return
    found = list(_on_host(project, module))
    if not found or sets_default_device(project, module):
        return
    in_loop: dict[ast.AST, list[tuple[ast.expr, LoopContext]]] = {}
    for made, context in found:
        if not is_seldom(module, made.transfer.node, context):
            in_loop.setdefault(context.loop.node, []).append((made.transfer.node, context))
    guards = project.fact(Guards)
    for made, context in found:
        text = _shortened(module.syntax.text(made.made))
        loop = context.loop.node
        of_tensor = "torch.tensor" in project.fact(Resolver).call_names(module, made.made)
        of_host = of_tensor and not made.counted and not _stays_the_same(module, made.made)
        conditional = guards.is_conditional(module, made.made, loop)
        rounds = "at every iteration" if not conditional else "where its condition holds"
        if is_seldom(module, made.transfer.node, context):
            rounds = "in some iterations"
        yield RULE.finding(
            document.path,
            module.syntax.span(made.transfer.node),
            f"'{text}' is made on the host and copied to the GPU {rounds}",
            help=_COUNTED if made.counted else _advice(module, made, of_host) if of_tensor else _THERE,
            cost=Cost("host-tensor", seconds=_COPIED, basis="values of the host are copied")
            if of_host
            else cost(project, module, made.transfer.node, in_loop.get(loop, []), context),
            payload=made,
            related=tuple(
                Place(site.module.path, site.module.syntax.span(site.node), "called from the loop here")
                for site in context.calls
                if isinstance(site.node, ast.Call)
            ),
            cause=outermost_loop(context),
        )


def _on_host(project: Project, module: ModuleIndex) -> Iterator[tuple[OnHost, LoopContext]]:
    """Yield the tensors of a module that each round of a loop makes on the host, and the loops."""
    for transfer in project.fact(DeviceTransfers).transfers(module):
        found = made_and_filled(_set_before(module, transfer) or transfer.value)
        made = found.node
        if not isinstance(made, ast.Call) or (Device.CUDA not in transfer.devices and not transfer.to_gpu):
            continue
        names = project.fact(Resolver).call_names(module, made)
        random = found.random or bool(names & _RANDOM)
        known = _CONSTANT | _RANDOM | (OF_TYPE if found.filled else frozenset())
        if not names & known or ("torch.normal" in names and not _has_size(made)):
            continue
        if any(name.endswith("_like") for name in names) and not _is_on_host(project, module, made):
            continue
        if is_empty(names, made) or any(keyword.arg in ("device", "generator", None) for keyword in made.keywords):
            continue
        context = _loop(project, module, transfer)
        if context is not None and is_only_read_back(module, transfer.node):
            continue
        if random and context is not None and _is_seeded(module, context.loop.node):
            continue  # the numbers are to be those of the CPU's generator
        if context is not None and not _is_within_device(project, module, made):
            counted = "torch.tensor" in names and is_of_counter(module, made, context.loop.node)
            yield OnHost(made, transfer, random, counted), context


def _has_size(made: ast.Call) -> bool:
    """Return whether ``torch.normal`` is asked for numbers of a size; otherwise it draws where its means are."""
    return len(made.args) > 2 or any(keyword.arg in ("size", None) for keyword in made.keywords)


def _set_before(module: ModuleIndex, transfer: Transfer) -> ast.expr | None:
    """Return what the statement right before sets a variable to that is moved then (``mask = torch.zeros(n)``, ``mask =
    mask.to(device)``)."""
    statement = module.syntax.parents.get(transfer.node)
    place = module.syntax.place(statement) if isinstance(statement, ast.Assign) else None
    if not isinstance(transfer.value, ast.Name) or statement is None or place is None or place[1] == 0:
        return None
    block = getattr(module.syntax.parents[statement], place[0])
    match block[place[1] - 1], statement:
        case (
            ast.Assign(targets=[ast.Name(id=made)], value=ast.Call() as value),
            ast.Assign(targets=[ast.Name(id=moved)]),
        ) if made == moved == transfer.value.id:
            return value
    return None


_COUNTED = (
    "index with the number itself, or make `torch.arange(n, device=...)` once, before the loop, and take its elements"
)
_THERE = "create it there: pass `device=...` to the call that creates it, or make it once if it is always the same"


def _advice(module: ModuleIndex, moved: OnHost, of_host: bool) -> str:
    """Return the advice for ``torch.tensor``, which builds its values on the host wherever it puts them."""
    made = moved.made
    if is_read_back(module, moved.transfer.node):
        return "write the value itself: the call around the list reads all its elements on the host"
    if of_host:
        return (
            "its values come from the host: hand over whole arrays (`torch.from_numpy`) from the loader's workers, or "
            "copy the data once before the loop and index it on the GPU"
        )
    if made.args and isinstance(made.args[0], ast.List | ast.Tuple):
        return "make it once, before the loop: its values are always the same"
    return "create it there (`torch.full((), value, device=...)`), or make it once if it is always the same"


def _stays_the_same(module: ModuleIndex, made: ast.Call) -> bool:
    """Return whether ``torch.tensor(...)`` gets values that no iteration changes: numbers, and attributes that only
    ``__init__`` sets."""
    for part in (part for argument in made.args[:1] for part in walk(argument)):
        match part:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                owner = module.class_of(made)
                stored = module.attributes.get((owner, name), ()) if owner is not None else ()
                homes = [module.function(binding.node) for binding in stored]
                if not homes or any(home is None or home.name != "__init__" for home in homes):
                    return False
            case ast.Name(id=name) if name not in _CONSTRUCTORS:
                return False
            case ast.Call(func=func) if last_name(func) not in _CONSTRUCTORS:
                return False
    return True


def _is_seeded(module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether each round of a loop sets the seed (``torch.manual_seed(step)``)."""
    return any(loop in module.syntax.ancestors(call) for call in module.calls_by_name.get("manual_seed", ()))


def _is_within_device(project: Project, module: ModuleIndex, made: ast.Call) -> bool:
    """``with torch.device("cuda"):``, where all tensors are made"""
    resolver = project.fact(Resolver)
    return any(
        "torch.device" in resolver.call_names(ref.module, ref.node)
        for up in module.syntax.ancestors(made)
        for context in contexts_of(up)
        for ref in resolver.points_to(module, context)
        if isinstance(ref.node, ast.Call)
    )


def _is_on_host(project: Project, module: ModuleIndex, made: ast.Call) -> bool:
    """Return whether the tensor that ``torch.zeros_like(x)`` is like is a batch fresh from a loader. It is made where
    that one is."""
    batch_read = project.fact(BatchFlow).batch_of(module, made.args[0]) if made.args else None
    return batch_read is not None and not batch_read.prepared


def _loop(project: Project, module: ModuleIndex, transfer: Transfer) -> LoopContext | None:
    guards = project.fact(Guards)
    if guards.is_periodic(module, transfer.node) or guards.is_debugging(module, transfer.node):
        return None
    if guards.fills_once(module, transfer.node):
        return None
    if guards.is_error_path(module, transfer.node) or project.fact(GpuPrograms).tries_itself(module, transfer.node):
        return None
    for context in project.fact(LoopContexts).enclosing_loops(module, transfer.node):
        seldom = any(
            guards.is_periodic(site.module, site.node) or guards.fills_once(site.module, site.node)
            for site in context.calls
        )
        if (
            context.role in (Role.STEP, Role.EVAL)
            and not seldom
            and not (
                isinstance(loop := context.loop.node, LOOPS) and trains_on_host(project, context.loop.module, loop)
            )
            and not _once_per_sample(project, module, transfer, context)
        ):
            return context
    return None


def _once_per_sample(project: Project, module: ModuleIndex, transfer: Transfer, context: LoopContext) -> bool:
    """Return whether an evaluation steps through time after this, as the sampler of a diffusion model does. Once counts
    little."""
    innermost = next(project.fact(LoopContexts).around(module, transfer.node), None)
    if context.role is not Role.EVAL or (innermost is not None and innermost is not context.loop.node):
        return False
    beside = project.fact(LoopContexts).inner_loops(module, innermost or module.function(transfer.node))
    return any(
        isinstance(loop, ast.For)
        and loop is not context.loop.node
        and loop.lineno > transfer.node.lineno
        and _TIME.search(ast.unparse(loop.iter))
        for loop in beside
    )


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


RULE = Rule(
    code="GPU306",
    name="tensor-created-on-host",
    category=Category.HOST_GPU_TRANSFER,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=(("torch",), (".to(", ".cuda(")),
    summary="a tensor is created on the host and copied to the GPU in the loop",
    why="the host creates and copies in every iteration what the GPU could create itself",
    evidence=(Evidence("27.9% of 706 issues in 400 jobs with GPU utilization of 50% or less"),),
    check=check,
    cost=Cost("host-tensor"),
    fix=Safety.SAFE,
    bad="""\
for images in loader:
    target = torch.zeros(len(images)).to(device)
    loss = criterion(model(images.to(device)), target)
    loss.backward()
""",
    good="""\
for images in loader:
    target = torch.zeros(len(images), device=device)
    loss = criterion(model(images.to(device)), target)
    loss.backward()
""",
    references=(
        "https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#create-tensors-directly-on-the-target-device",
    ),
)
