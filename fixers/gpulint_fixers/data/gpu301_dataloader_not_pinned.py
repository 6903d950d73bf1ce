"""Pass ``pin_memory`` to the loader, and ``non_blocking=True`` to the copies of its batches."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

from gpulint_rules.data.gpu301_dataloader_not_pinned import NotPinned, check, moves_numbers
from gpulint_rules.data.gpu302_blocking_transfer import Blocking

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.placement.batch_classes import is_collated, is_whole
from gpulint.placement.device_transfers import DeviceTransfers, Transfer
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.path_conditions import is_unreachable
from gpulint.training.loader_calls import Loader
from gpulint.workload.sample_counts import has_few_batches
from gpulint.workload.worker_supply import loads_in_process
from gpulint_fixers.loading.async_copies import (
    CONVERTED,
    WITHOUT_WORKERS,
    blocking_copies,
    converts_first,
    loaders_beside,
    together,
    waits_anyway,
)
from gpulint_fixers.loading.failing_homes import never_made
from gpulint_fixers.loading.host_samples import Samples, samples_of
from gpulint_fixers.loading.loader_homes import by_home, siblings
from gpulint_fixers.loading.loader_lifetimes import ONE_BATCH, is_for_a_look
from gpulint_fixers.loading.moved_copies import DISCARDED, NOT_PINNED, ON_CPU, RAISES, SINGLE, SWAPPED, stays_on_cpu
from gpulint_fixers.loading.pinning import cautious, pin
from gpulint_fixers.loading.timed_copies import TIMED

_NO_WORKERS = f"{WITHOUT_WORKERS}, so the training process would copy each batch into pinned memory itself"


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Pin the loader, and let the copies of its batches not wait; see the rule's section on safety."""
    payload = finding.payload
    if not isinstance(payload, NotPinned):
        return Declined("the loader is created elsewhere")
    made = _fix(project, payload.loader)
    if isinstance(made, Declined):
        return made
    homes = _homes(project, payload.loader.module.path)
    loaders = [loader for found in homes.values() for loader, _ in found]
    pinned, edits = [payload.loader], [*made.edits]
    for loader in pinned:  # loaders whose batches the same copies take, and those beside each of them
        near = (_fix(project, other) for other in siblings(homes, loader))
        fixes = (one for one in near if isinstance(one, Fix) and made.safety in (one.safety, Safety.UNSAFE))
        edits += (edit for one in fixes for edit in one.edits)
        pinned += (one for one in loaders if one not in pinned and any(_is_in(edit, one) for edit in edits))
    return replace(made, edits=tuple(dict.fromkeys(edits)))


def _is_in(edit: Edit, loader: Loader) -> bool:
    span = loader.module.syntax.span(loader.node)
    return (
        edit.path == loader.module.path and edit.span.cell == span.cell and span.line <= edit.span.line <= span.end_line
    )


@query
def _homes(project: Project, path: Path) -> dict[ast.AST | None, list[tuple[Loader, Loader]]]:
    """The loaders of a module that do not pin their memory, by what makes them."""
    document = project.document(path)
    found = (one.payload for one in (check(document, project) if document is not None else ()))
    return by_home((one.loader, one.loader) for one in found if isinstance(one, NotPinned))


@query
def _fix(project: Project, loader: Loader) -> Fix | Declined:
    """Return the fix of one loader, which is unsafe where somebody switched pinning off."""
    made = _pinned(project, loader)
    return made if isinstance(made, Declined) else cautious(project, made)


def _pinned(project: Project, loader: Loader) -> Fix | Declined:
    if is_unreachable(loader.module, loader.node):
        return Declined("the loader is never made: the code in front of it always leaves its block")
    if reason := never_made(project, loader):
        return Declined(reason)
    if has_few_batches(project, loader):
        return Declined(ONE_BATCH)
    if is_for_a_look(loader):
        return Declined("the loader feeds a look at a few samples")
    samples = samples_of(project, loader)
    if samples.risk:
        return Declined(samples.risk)
    edit = pin(project, loader)
    if isinstance(edit, Declined):
        return edit
    transfers = list(project.fact(DeviceTransfers).transfers_of(loader))
    if transfers and all(map(stays_on_cpu, transfers)):
        return Declined(ON_CPU)
    copies = [_together(project, copy) for copy in blocking_copies(project, loader)]
    if loads_in_process(project, loader) and (reason := _no_gain(project, transfers, copies)):
        return Declined(reason)
    if lost := _lost(project, loader):
        return Declined(lost)
    if copies and all(isinstance(copy, Declined) for copy in copies):
        for other in loaders_beside(project, loader):
            if lost := _lost(project, other):
                return Declined(f"the same step copies batches of another loader, which gains nothing: {lost}")
    made = [copy for copy in copies if isinstance(copy, Fix)]
    if copies and not made and moves_numbers(project, tuple(transfers)):
        return Declined(
            f"only numbers would be pinned: {next(one.reason for one in copies if isinstance(one, Declined))}"
        )
    more = tuple(dict.fromkeys(one for copy in made for one in copy.edits if one != edit))
    also = ", and copy them without blocking the host" if made else ""
    if note := _note(project, transfers, samples):
        return Fix(f"pin the loader's batches in host memory{also}; {note}", Safety.UNSAFE, (edit, *more))
    if least := next((copy for copy in made if copy.safety is not Safety.SAFE), None):
        if SWAPPED in least.description:
            also = f", copy them without blocking the host, and {SWAPPED}"
            return Fix(f"pin the loader's batches in host memory{also}", Safety.UNSAFE, (edit, *more))
        if loads_in_process(project, loader):
            note = least.description.partition("; ")[2]
            return Fix(f"pin the loader's batches in host memory{also}; {note}", Safety.UNSAFE, (edit, *more))
        also, more = "", ()
    return Fix(f"pin the loader's batches in host memory{also}", Safety.SAFE, (edit, *more))


@query
def _lost(project: Project, loader: Loader) -> str:
    """Return why no copy of a loader's batches could take them from pinned memory; empty where one may."""
    copies = [_together(project, copy) for copy in blocking_copies(project, loader)]
    reasons = [copy.reason if isinstance(copy, Declined) else "" for copy in copies]
    lost = [reason for reason in reasons if reason in (CONVERTED, NOT_PINNED, DISCARDED, RAISES, TIMED)]
    if not lost or not all(reasons):
        return ""
    return "" if any(one.non_blocking for one in project.fact(DeviceTransfers).transfers_of(loader)) else lost[0]


def _together(project: Project, copy: Blocking) -> Fix | Declined:
    """The fix of a copy; a copy of what is converted first that stays as it is gains nothing from pinned memory."""
    made = together(project, copy)
    return Declined(CONVERTED) if isinstance(made, Declined) and converts_first(copy) else made


def _no_gain(project: Project, transfers: list[Transfer], copies: list[Fix | Declined]) -> str:
    """Return why pinning a loader without workers gains nothing; empty where the copies can overlap."""
    if not transfers:
        return f"{_NO_WORKERS}; set `num_workers` first"
    staying = next((copy for copy in copies if isinstance(copy, Declined) and copy.reason != SINGLE), None)
    if staying is not None:
        if staying.reason.startswith(WITHOUT_WORKERS):
            return staying.reason
        return f"{_NO_WORKERS}, and the copies to the GPU still wait: {staying.reason}"
    return waits_anyway(project, transfers)


def _note(project: Project, transfers: list[Transfer], samples: Samples) -> str:
    """Return what pinning may change; empty where it is safe."""
    if any(is_collated(project, transfer) and is_whole(transfer.value, transfer.batch_read) for transfer in transfers):
        return "older versions of PyTorch may turn a batch of a custom class into a plain dict"
    if samples is Samples.UNKNOWN:
        return "an error follows if the data set, which could not be determined, has put them on the GPU"
    return ""


FIXER = Fixer("GPU301", fix)
