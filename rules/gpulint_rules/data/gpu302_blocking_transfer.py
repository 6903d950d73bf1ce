"""What it detects
``.to(device)`` or ``.cuda()`` on batches of a data loader, in the loop or in a helper that it calls, without
``non_blocking=True``; also on NumPy batches that are converted to tensors there (``torch.from_numpy(x).to(device)``),
those of replay buffers among them.

Recognizes PyTorch loops, SpeechBrain hooks and Ignite engines, and the loaders of torchdata, PyG, DGL, MONAI and
WebDataset. Batches that Lightning hands to its hooks, loaders prepared by Accelerate, Fabric or Ray Train, and
iterators of TensorFlow, JAX, DALI and torchtext are left alone, and so are evaluation batches of unpinned loaders
without workers that each end in a wait: nothing would overlap with the copy.

Why it costs GPU time
A blocking copy makes the host wait until the batch has arrived, so it cannot queue the kernels of this step or
prepare the next one. Inefficient host-GPU data transfer is the most frequent category of the study: 27.9% of 706
issues in 400 jobs.

When to ignore this rule
The batch is changed on the host right after it was sent; a tensor moves from the GPU to the host (there
``non_blocking=True`` is a bug unless the stream is synchronised before the values are read).

Fix safety
Safe where every loader that the batch may come from pins its memory, or can be made to in the same fix. Left alone
where nothing says that it does, as the copy then blocks anyway, and for unpinned loaders without workers whose batches
each end in a wait. Unsafe for whole batches that a ``collate_fn``
makes, as their class may not know the option (``BatchEncoding`` of an older transformers), and for tensors made of
NumPy arrays, which have to be pinned first. Left alone are functions that callers also use to move results back to the
CPU (without a wait, results would be read too early), and what is converted before it is copied (``x.float().cuda()``),
by a statement or by a helper, as the new tensor is not pinned; and copies whose result the same expression reads back.
Where the program may use another accelerator than CUDA, such as MPS, the copies do not wait on CUDA only
(``non_blocking=device.type == "cuda"``): elsewhere they could read memory that is already free.

References
https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.placement.batch_classes import BatchClasses
from gpulint.placement.device_transfers import DeviceTransfers, Transfer
from gpulint.placement.host_copies import is_handed_new
from gpulint.placement.host_to_device import HostToDevice
from gpulint.placement.parts_with_gaps import has_gaps
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.source import Span
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import ModuleIndex
from gpulint_rules.data.copied_parts import NUMBER_BYTES, is_number
from gpulint_rules.data.vain_copies import overlaps_nothing


@dataclass(frozen=True, slots=True)
class Blocking:
    """The blocking transfers of one statement, in source order."""

    transfers: tuple[Transfer, ...]


_MASK = regex.compile(r"(^|[_.'\"\[])(masks?|segs?|gts?|seg_?maps?|annotations?)([_.'\"\]\d]|$)", re.IGNORECASE)
"""Names of what has a class for each pixel."""
_MASK_BYTES = 224 * 224
"""Of one sample: a byte for each pixel of an image of usual size (assumed)."""
_VOLUME = regex.compile(r"(?<!\d)3[dD](?![a-z\d])|[Vv]olum|[Vv]oxel|nibabel|SimpleITK|torchio")
"""Layers, models and libraries for samples with depth: ``Conv3d``, ``UNet3DClassifier``."""
_UNPINNED = (0.0001, 0.001)
"""Seconds that `non_blocking` alone saves a copy from pageable memory (assumed): it still waits for the staging."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None:
        return
    statements: dict[ast.AST, list[Transfer]] = {}
    for transfer in project.fact(DeviceTransfers).batch_transfers(module):
        if _is_once_per_epoch(project, module, transfer) or is_handed_new(project, transfer):
            continue
        if has_gaps(module, transfer.value):
            continue
        if not transfer.non_blocking and not project.fact(BatchClasses).moves_itself(transfer):
            statements.setdefault(_statement(module, transfer.node), []).append(transfer)
    for transfers in statements.values():
        first = transfers[0]
        if overlaps_nothing(project, first.batch_read.loaders if first.batch_read is not None else ()):
            continue
        names = list(dict.fromkeys(module.syntax.text(transfer.value) for transfer in transfers))
        copies = "these copies" if len(names) > 1 else f"`{_shortened(module.syntax.text(first.node))}`"
        yield RULE.finding(
            document.path,
            _marked(module, transfers),
            f"the host waits while {_listed(names)} {'is' if len(names) == 1 else 'are'} copied to the GPU",
            help=f"pass `non_blocking=True` to {copies}{_and_pin(project, first)}",
            payload=Blocking(tuple(transfers)),
            cost=_cost(project, first, names),
            cause=_loop(project, module, first),
            related=(*_elsewhere(module, transfers), *_sources(first)),
        )


def _is_once_per_epoch(project: Project, module: ModuleIndex, transfer: Transfer) -> bool:
    """Return whether a framework's hook for the end of an epoch copies a batch that it draws for a look."""
    contexts = project.fact(LoopContexts)
    function = module.function(transfer.node)
    if function is None or next(contexts.around(module, transfer.node), None) is not None:
        return False
    return {role for _, role in contexts.hooks(module, function)} == {Role.EPOCH}


def _loop(project: Project, module: ModuleIndex, transfer: Transfer) -> Place | None:
    """The loop in whose function the batch is copied: its copies are repaired together."""
    loop = next(iter(project.fact(LoopContexts).around(module, transfer.node)), None)
    return Place(module.path, module.syntax.span(loop)) if isinstance(loop, ast.stmt | ast.expr) else None


def _cost(project: Project, first: Transfer, names: list[str]) -> Cost:
    """Labels and indices are a number per sample. From pageable memory every copy blocks, which GPU301 counts."""
    module = first.call.module
    few = all(is_number(module, name) for name in names)
    loaders = first.batch_read.loaders if first.batch_read is not None else ()
    loader = loaders[0] if loaders else None
    if loaders and all(project.fact(HostToDevice).is_pinned(one) is False for one in loaders):
        return Cost("transfer", seconds=_UNPINNED, loader=loader, basis="counted where the loader does not pin memory")
    if few:
        return Cost("transfer", amount=NUMBER_BYTES, loader=loader, basis="a number per sample")
    if all(is_number(module, name) or _MASK.search(name) for name in names) and not _is_of_volumes(module):
        return Cost("transfer", amount=_MASK_BYTES, loader=loader, basis="a class per pixel")
    return Cost("transfer", loader=loader)


@query
def _is_of_volumes(module: ModuleIndex) -> bool:
    """Return whether a module speaks of volumes, whose masks have as many voxels as the samples, mostly as floats."""
    return _VOLUME.search(module.syntax.source.text) is not None


def _and_pin(project: Project, transfer: Transfer) -> str:
    """Return what a copy needs besides to run in the background; nothing where its loaders pin memory already."""
    batch_read = transfer.batch_read
    if batch_read is not None and batch_read.arrays and isinstance(transfer.value, ast.Subscript):
        text = transfer.call.module.syntax.text
        taken, table = _shortened(text(transfer.value)), _shortened(text(transfer.value.value))
        return f" and pin what it takes first (`{taken}.pin_memory()`), or keep `{table}` on the GPU"
    if batch_read is not None and batch_read.arrays:
        return " and pin the tensor first (`.pin_memory()`)"
    loaders = batch_read.loaders if batch_read is not None else ()
    pinned = loaders and all(project.fact(HostToDevice).is_pinned(loader) for loader in loaders)
    return "" if pinned else " and pin the loader's memory"


def _statement(module: ModuleIndex, call: ast.Call) -> ast.AST:
    """The simple statement around a call; the call itself in the header of a compound one."""
    for up in module.syntax.ancestors(call):
        if isinstance(up, ast.stmt):
            return call if hasattr(up, "body") else up
    return call


def _marked(module: ModuleIndex, transfers: Sequence[Transfer]) -> Span:
    """The first transfer, and the others of its line up to the last one."""
    first, *others = (module.syntax.span(transfer.node) for transfer in transfers)
    ends = [other.end_column for other in others if other.line == other.end_line == first.end_line == first.line]
    return replace(first, end_column=max([first.end_column, *ends]))


def _elsewhere(module: ModuleIndex, transfers: Sequence[Transfer]) -> Iterator[Place]:
    """Transfers of the statement on lines below the first one's."""
    first = module.syntax.span(transfers[0].node)
    for transfer in transfers[1:]:
        span = module.syntax.span(transfer.node)
        if span.line != first.line:
            name = _shortened(module.syntax.text(transfer.value))
            yield Place(module.path, span, f"'{name}' is copied here")


def _listed(names: list[str]) -> str:
    quoted = [f"'{_shortened(name)}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def _sources(transfer: Transfer) -> Iterator[Place]:
    batch_read = transfer.batch_read
    if batch_read is None:
        return
    for loader in batch_read.loaders[:3]:
        yield Place(loader.module.path, loader.module.syntax.span(loader.node), "the loader of these batches")


RULE = Rule(
    code="GPU302",
    name="blocking-transfer",
    category=Category.HOST_GPU_TRANSFER,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=((".to(", ".cuda(", ".type("),),
    summary="batches are copied to the GPU while the host waits",
    why="a blocking copy keeps the host from queueing kernels, and the GPU waits at every batch",
    evidence=(Evidence("27.9% of 706 issues in 400 jobs with GPU utilization of 50% or less"),),
    check=check,
    cost=Cost("transfer"),
    fix=Safety.SAFE,
    bad="""\
loader = DataLoader(dataset, batch_size=64, pin_memory=True)
for images, labels in loader:
    loss = step(images.cuda(), labels.cuda())
""",
    good="""\
loader = DataLoader(dataset, batch_size=64, pin_memory=True)
for images, labels in loader:
    loss = step(images.cuda(non_blocking=True), labels.cuda(non_blocking=True))
""",
    references=("https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html",),
)
