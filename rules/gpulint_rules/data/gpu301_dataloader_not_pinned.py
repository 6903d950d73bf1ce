"""What it detects
A ``torch.utils.data.DataLoader`` (or a loader that forwards to it: PyG, DGL, WebDataset, MONAI) that is built without
``pin_memory`` or with ``pin_memory=False`` while its batches move to a GPU.

Recognizes PyTorch loops, Accelerate, Fabric, Ray Train, Lightning, Determined, Composer and Ignite; the loaders of
torchdata, PyG, DGL, MONAI, Determined and WebDataset; arguments of a Hugging Face trainer, defaults of yacs and
configuration files of a training that switch pinning off.

Why it costs GPU time
A copy from pageable memory goes through a staging buffer and blocks the host, so the GPU waits for every batch.
Inefficient host-GPU data transfer is the most frequent category of the study: 27.9% of 706 issues in 400 jobs.

When to ignore this rule
The program runs on the CPU only; the data set yields CUDA tensors already (pinning them raises an error); host
memory is so scarce that page-locked buffers would make the machine swap.

Fix safety
The fix also passes ``non_blocking=True`` to the copies of the batches, on CUDA only where the program may use another
accelerator (``non_blocking=device.type == "cuda"``). A loader without workers is left alone where
nothing would overlap: the copies have to wait, each batch ends in a read of the GPU, or a framework moves the batches.
Safe where the batches are seen moving from host to GPU, or go to a framework that moves them: page-locked batches
hold the same values. Unsafe where the loader's call passes ``pin_memory=False``, which may be a choice. An option of
the program that pins by default is used if there is one. Where the program may also run without a GPU, the fix pins
only if there is one; in a module that forks processes, which could not use the GPU after this check, it always does, of
which PyTorch warns without a GPU.
Nothing is changed where batches may hold sparse tensors, which older versions of PyTorch cannot pin, objects of a class
without a method ``pin_memory``, which loaders pass on as they are, or an object of the data set itself, which the
program may have moved to the GPU in place. Unsafe where a data set or ``collate_fn`` of
unknown origin could put tensors on the GPU itself, and where a whole batch that a ``collate_fn`` makes is moved: an
older PyTorch may make a plain dict of it. An explicit ``False`` with a comment beside it stays.

References
https://pytorch.org/docs/stable/data.html#memory-pinning
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.libraries import gate_words
from gpulint.placement.device_transfers import DeviceTransfers, Transfer
from gpulint.placement.devices import Device, Devices
from gpulint.placement.host_copies import gains_from_pinning, original_text
from gpulint.placement.host_to_device import HostToDevice, sets_gpu_loader
from gpulint.placement.text_items import holds_texts
from gpulint.placement.unpinned_classes import unpinned_class
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.reasons import is_changed
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.points_to import Resolver
from gpulint.source import Span
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.training.undrawn_loaders import UndrawnLoaders
from gpulint.values import yacs_defaults
from gpulint.values.constants import Constants
from gpulint.values.replaced_settings import is_default
from gpulint.values.training_configs import settings
from gpulint.workload.gpu_samples import pinning_collate
from gpulint.workload.worker_supply import loads_in_process
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, ModuleIndex, dotted, last_name
from gpulint_rules.data import worker_reasons
from gpulint_rules.data.copied_parts import NUMBER, NUMBER_BYTES, is_number
from gpulint_rules.data.vain_copies import overlaps_nothing

_OFF = regex.compile(r"pin_mem(?:ory)?['\"]?:[ \t]*(?:false|no|off)\b", re.IGNORECASE)
_COPY_OFF = regex.compile(r"\s*#\s*\w+\s*=\s*(\w+)\.(?:to|cuda)\(")
_PIN = regex.compile(r"(^|\.)pin_mem(ory)?$", re.IGNORECASE)
_WITH_WORKERS = ", together with workers (GPU303): without them the training process itself pins each batch"
_MOST = 3
"""Most copies of its batches that a finding names."""


@dataclass(frozen=True, slots=True)
class NotPinned:
    """The loader call, and the transfers of its batches or the place where a framework takes it over to move them."""

    loader: Loader
    transfers: tuple[Transfer, ...]
    mover: Place | None


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None:
        yield from _configuration(document, project)
        return
    yield from _arguments(document, module, project)
    yield from _defaults(document, module, project)
    feeding, undrawn = project.fact(HostToDevice), project.fact(UndrawnLoaders)
    for loader in project.fact(LoaderFlow).in_module(module):
        if feeding.is_pinned(loader) is not False or undrawn.only_first_batches(module, loader.node):
            continue
        if worker_reasons.is_tried(loader) or _is_switched_off(document, loader):
            continue
        copies = tuple(project.fact(DeviceTransfers).transfers_of(loader))
        transfers = tuple(
            transfer
            for transfer in copies
            if (transfer.batch_read is None or not transfer.batch_read.arrays) and gains_from_pinning(project, transfer)
        )
        if len(transfers) < len(copies) and moves_numbers(project, transfers):
            transfers = ()  # what is large was computed on the host
        if _train(project, copies) and not _train(project, transfers):
            transfers = ()  # the training would pay for pinning, and gain nothing
        mover = feeding.mover(loader)
        if not transfers and (mover is None or feeding.only_regroups(loader)):
            continue  # nothing moves its batches, or they are no tensors as far as anybody can see
        if _gives_texts(project, loader):
            continue
        if feeding.yields_gpu_tensors(loader) or pinning_collate(project, loader):
            continue
        if transfers and (all(map(_is_partly_off, transfers)) or overlaps_nothing(project, (loader,))):
            continue
        if loader.node.args and isinstance(loader.node.args[0], ast.List | ast.Tuple):
            continue  # a stand-in for data: a few literals
        name = loader.variable
        yield RULE.finding(
            document.path,
            module.syntax.span(loader.node),
            (f"DataLoader '{name}' does not pin memory" if name else "DataLoader does not pin memory")
            + (" by default" if _is_default(project, loader) else ""),
            help=_help(project, loader, moves=bool(transfers)),
            payload=NotPinned(loader, transfers, mover),
            cost=_cost(project, loader, transfers if mover is None else ()),
            related=_evidence(transfers, mover),
        )


def _help(project: Project, loader: Loader, *, moves: bool) -> str:
    owner = unpinned_class(project, loader)
    first = (
        f"give `{owner}` a method `pin_memory` (loaders only pin tensors, collections and what has one), "
        if owner
        else ""
    )
    pinned = f"add `pin_memory=True` to {f'`{loader.variable}`' if loader.variable else 'it'}"
    moved = " and move its batches with `non_blocking=True`" if moves else ""
    return first + pinned + moved + (_WITH_WORKERS if loads_in_process(project, loader) else "")


def _is_switched_off(document: Document, loader: Loader) -> bool:
    """Return whether a comment says that pinning was switched off (``# pin_memory True -> False``)."""
    given = keyword_value(loader.node, "pin_memory")
    return (
        isinstance(given, ast.Constant)
        and given.value is False
        and is_changed(document, _PIN, "false", loader.module.syntax.span(given))
    )


def _gives_texts(project: Project, loader: Loader) -> bool:
    """Return whether nothing makes tensors of the texts of a data set (``{"prompt": self.prompt}``)."""
    sources = project.fact(HostToDevice).sources(loader)
    collates = not loader_argument(project, loader, "collate_fn").is_absent
    return bool(sources) and not collates and all(holds_texts(project, source) for source in sources)


def _is_default(project: Project, loader: Loader) -> bool:
    """Return whether an option, or what the program reads when it runs, may have the loader pin its batches."""
    argument = loader_argument(project, loader, "pin_memory")
    known = [project.fact(Constants).of(ref.module, ref.node) for ref in argument.refs]
    return any(is_default(project, value) for one in known for value in one.values)


def _cost(project: Project, loader: Loader, transfers: tuple[Transfer, ...]) -> Cost:
    scatters = any("DataParallel" in one.module.calls_by_name for one in transfers)
    known = all(is_number(one.call.module, original_text(project, one)) for one in transfers)
    if transfers and known and not scatters:
        return Cost("pageable-transfer", amount=NUMBER_BYTES, loader=loader, basis="a number per sample")
    return Cost("pageable-transfer", loader=loader)


def moves_numbers(project: Project, transfers: tuple[Transfer, ...]) -> bool:
    """Return whether what moves may be a number for each sample by its names: labels, targets."""
    return bool(transfers) and all(NUMBER.search(original_text(project, one)) for one in transfers)


def _train(project: Project, transfers: tuple[Transfer, ...]) -> bool:
    """Return whether one of the copies is in a loop that trains, rather than in one that evaluates or shows samples."""
    loops = project.fact(LoopContexts)
    return any(
        isinstance(read.where.node, LOOPS) and loops.role(read.where.module, read.where.node) is Role.STEP
        for one in transfers
        if (read := one.batch_read) is not None
    )


def _is_partly_off(transfer: Transfer) -> bool:
    """Return whether the loop around a copy has a line for another part of its batch that is commented out
    (``# images = images.to(device)``): what moves may be a few labels."""
    loop = transfer.batch_read.where.node if transfer.batch_read is not None else None
    if not isinstance(loop, ast.For) or transfer.batch_read is None:
        return False
    module = transfer.batch_read.where.module
    parts = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
    lines = map(module.syntax.source.line, range(loop.lineno, (loop.end_lineno or loop.lineno) + 1))
    off = {found.group(1) for line in lines if (found := _COPY_OFF.match(line))} & parts
    return bool(off) and off.isdisjoint(part.id for part in walk(transfer.value) if isinstance(part, ast.Name))


def _arguments(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """``TrainingArguments(dataloader_pin_memory=False)``: Hugging Face trainers pin unless they are told not to."""
    for call in module.calls:
        for keyword in call.keywords:
            if keyword.arg != "dataloader_pin_memory" or not isinstance(keyword.value, ast.Constant):
                continue
            if keyword.value.value is True or _collates_on_gpu(project, module):
                continue
            if project.fact(GpuPrograms).runs_on_gpu(module):
                yield RULE.finding(
                    document.path,
                    module.syntax.span(keyword),
                    "the trainer's loaders do not pin memory (dataloader_pin_memory is False)",
                    help="remove it; pinning is the default",
                )


def _collates_on_gpu(project: Project, module: ModuleIndex) -> bool:
    """Return whether a trainer gets a function that moves its batches to the GPU, whose tensors cannot be pinned."""
    collators = (
        made
        for call in module.calls
        for keyword in call.keywords
        if keyword.arg == "data_collator"
        for made in project.fact(Resolver).points_to(module, keyword.value)
    )
    return any(
        last_name(inner.func) == "cuda"
        or (last_name(inner.func) == "to" and Device.CUDA in project.fact(Devices).of(made.module, inner.args[0]))
        for made in collators
        if isinstance(made.node, FUNCTIONS)
        for inner in made.module.calls_of(made.node)
        if inner.args or last_name(inner.func) == "cuda"
    )


def _configuration(document: Document, project: Project) -> Iterator[Finding]:
    """``pin_memory: false`` in the configuration file of a training."""
    if project.word_index.mentioning(b"pin_memory"):
        for key, value, span in settings(document, project, _OFF, _PIN):
            if value is False:
                yield _switched_off(document, span, key)


def _defaults(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """``_C.DATA.PIN_MEMORY = False`` among the defaults of yacs that a loader follows."""
    for target in yacs_defaults.switched_off(project, module, _PIN):
        if sets_gpu_loader(project, target, "pin_memory"):
            yield _switched_off(document, module.syntax.span(target), dotted(target))


def _switched_off(document: Document, span: Span, key: str) -> Finding:
    return RULE.finding(
        document.path,
        span,
        f"the loaders of the training do not pin memory ({key} is False)",
        help="set it to true, and move batches with `non_blocking=True`",
    )


def _evidence(transfers: tuple[Transfer, ...], mover: Place | None) -> tuple[Place, ...]:
    more = len(transfers) - _MOST
    said = ["its batches move to the GPU here"] * _MOST
    said[-1] += f", and at {more} more place{'s' * (more > 1)}" if more > 0 else ""
    seen = [
        Place(t.call.module.path, t.call.module.syntax.span(t.node), note)
        for t, note in zip(transfers, said, strict=False)
    ]
    return tuple(seen) or ((mover,) if mover is not None else ())


RULE = Rule(
    code="GPU301",
    name="dataloader-not-pinned",
    category=Category.HOST_GPU_TRANSFER,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK, Kind.JOBSPEC, Kind.WORKFLOW}),
    reads=("loader", "mover", "hook"),
    tokens=((*gate_words("loader"), "Loader", "dataloader_pin_memory", "pin_mem", "PIN_MEM", "prepare_dataloader"),),
    summary="DataLoader feeds a GPU from pageable memory",
    why="copies from pageable memory block the host, so the GPU waits for every batch",
    evidence=(Evidence("27.9% of 706 issues in 400 jobs with GPU utilization of 50% or less"),),
    check=check,
    cost=Cost("pageable-transfer"),
    fix=Safety.SAFE,
    bad="""\
loader = DataLoader(dataset, batch_size=64)
for images, labels in loader:
    loss = step(images.cuda(), labels.cuda())
""",
    good="""\
loader = DataLoader(dataset, batch_size=64, pin_memory=True)
for images, labels in loader:
    loss = step(images.cuda(non_blocking=True), labels.cuda(non_blocking=True))
""",
    references=("https://pytorch.org/docs/stable/data.html#memory-pinning",),
)
