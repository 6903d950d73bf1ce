"""The edits that make copies of batches asynchronous; used by the fixers of the copies and of their loaders."""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import replace

from gpulint_rules.data.gpu302_blocking_transfer import Blocking
from gpulint_rules.data.step_waits import waiting_line

from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.placement.batch_classes import is_collated, is_whole
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.device_transfers import DeviceTransfers, Transfer
from gpulint.placement.devices import Device, Devices
from gpulint.placement.host_copies import draws_doubles, is_new
from gpulint.placement.host_to_device import HostToDevice
from gpulint.placement.unpinned_classes import UNPINNED, unpinned_class
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.path_conditions import is_unreachable
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import is_benchmark
from gpulint.training.loader_calls import Loader
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workload.sample_counts import has_few_batches
from gpulint.workload.worker_supply import loads_in_process
from gpulint.workspace.module_index import LOOPS, NodeRef, last_name
from gpulint_fixers.edits.long_calls import broken
from gpulint_fixers.edits.versions import predates_device_argument
from gpulint_fixers.loading.copy_barriers import barrier_below
from gpulint_fixers.loading.copy_groups import copies_beside, copies_by_block, copies_of_other_branches
from gpulint_fixers.loading.copy_options import (
    chosen,
    forwards_choice,
    is_known_at,
    is_switched_off,
    passes_options_on,
    setting_beside,
    setting_of_caller,
)
from gpulint_fixers.loading.cuda_only import MAY_BE_OTHER, non_blocking, unblock
from gpulint_fixers.loading.host_samples import Samples, samples_of
from gpulint_fixers.loading.loader_homes import made_together
from gpulint_fixers.loading.loader_lifetimes import ONE_BATCH
from gpulint_fixers.loading.moved_arguments import may_get_modules, moved_parameter
from gpulint_fixers.loading.moved_copies import (
    SWAPPED,
    has_no_batch,
    is_changed_after,
    no_gain,
    swapped_conversion,
    unknown_class,
)
from gpulint_fixers.loading.new_copies import copies_new
from gpulint_fixers.loading.pinning import pin
from gpulint_fixers.loading.timed_copies import TIMED, TIMED_AFTER, is_timed, is_timed_after

MAX_FILES = 4
"""Most files that one fix changes: nobody reviews the loaders of a dozen data sets for the sake of one copy."""
CONVERTED = "what is converted first is no longer in pinned memory: copy it, and convert it on the GPU"
WITHOUT_WORKERS = "the loader has no workers"
"""How reasons begin that name what a loader without workers would gain nothing from."""


def together(project: Project, payload: Blocking) -> Fix | Declined:
    """Make the copies of a statement, and those beside it, asynchronous. Safe if all their loaders pin memory, or do so
    after the same fix."""
    made = _unblocked(project, payload)
    if isinstance(made, Declined):
        return made
    beside = [_unblocked(project, other) for other in copies_beside(project, payload)]
    if any(isinstance(one, Declined) for one in beside):
        return Declined("another copy of the same step waits for this one, and stays")
    alike = {other: _unblocked(project, other) for other in copies_of_other_branches(project, payload)}
    if stays := next((other for other, one in alike.items() if isinstance(one, Declined)), None):
        place = stays.transfers[0].module.syntax.span(stays.transfers[0].node)
        return Declined(f"the same copy in the branch of {place.words} cannot be changed")
    beside += alike.values()
    if copies_new(project, payload.transfers[0]):
        return Declined("another copy of the same step waits, as what it moves was computed from the batch")
    fixes = [made, *(one for one in beside if isinstance(one, Fix))]
    least = next((one for one in fixes if one.safety is not Safety.SAFE), made)
    edits = tuple(dict.fromkeys(edit for one in fixes for edit in one.edits))
    if (files := len({edit.path for edit in edits})) > MAX_FILES:
        return Declined(f"{files} files would change, as all loaders of the copy would have to pin memory")
    if any(is_timed_after(project, transfer) for transfer in payload.transfers):
        least = replace(least, description=f"{least.description}; {TIMED_AFTER}", safety=Safety.UNSAFE)
    return replace(least, edits=edits)


def blocking_copies(project: Project, loader: Loader) -> list[Blocking]:
    """One blocking copy of each block that copies batches of a loader, with which :func:`together` takes the others."""
    transfers = [one for one in project.fact(DeviceTransfers).transfers_of(loader) if not one.non_blocking]
    nodes = {one.node for one in transfers}
    found = list[Blocking]()
    for path in dict.fromkeys(one.call.module.path for one in transfers):
        for block in copies_by_block(project, path).values():
            own = (one for one in block if any(transfer.node in nodes for transfer in one.transfers))
            found += itertools.islice(own, 1)
    return found


def loaders_beside(project: Project, loader: Loader) -> list[Loader]:
    """The other loaders whose batches are copied in the blocks that copy those of a loader."""
    near = (one for copy in blocking_copies(project, loader) for one in copies_beside(project, copy))
    found = {one.node: one for copy in near for transfer in copy.transfers for one in _loaders(project, transfer)}
    return [one for node, one in found.items() if node is not loader.node]


@query
def _unblocked(project: Project, payload: Blocking) -> Fix | Declined:
    elsewhere = set[Device]().union(*(_elsewhere(project, transfer) for transfer in payload.transfers))
    if reason := _obstacle(payload, elsewhere) or _against(project, payload):
        return Declined(reason)
    converting = [transfer for transfer in payload.transfers if _converts_first(transfer)]
    swapped = [edit for transfer in converting for edit in swapped_conversion(transfer.call.module, transfer.node)]
    if len(swapped) < 2 * len(converting) or any(has_no_batch(project, transfer) for transfer in converting):
        return Declined(CONVERTED)
    if any(draws_doubles(project, transfer) for transfer in converting):
        return Declined("the batch may hold doubles, which would be twice as large to copy before they are converted")
    loaders = {loader.node: loader for transfer in payload.transfers for loader in _loaders(project, transfer)}
    if reason := _gains_nothing(project, payload, list(loaders.values())):
        return Declined(reason)
    if any(samples_of(project, loader) is Samples.SHARED for loader in loaders.values()):
        return Declined(Samples.SHARED.risk)
    collated = [transfer for transfer in payload.transfers if is_collated(project, transfer)]
    if any(_strict_class(project, transfer) for transfer in collated):
        return Declined("a class of the program has a method of that name which takes no `non_blocking`")
    if any(may_get_modules(project, transfer) for transfer in payload.transfers):
        return Declined("the function may get a model as well, whose `cuda` takes no `non_blocking`")
    if owner := next(filter(None, map(unknown_class, payload.transfers)), ""):
        return Declined(f"the value may be a `{owner}`, whose method may not take `non_blocking`")
    pinned = [_pinned(project, loader) for loader in loaders.values()]
    syntax = payload.transfers[0].call.module.syntax
    values = {transfer.node: _chosen_value(project, transfer) for transfer in payload.transfers}
    if off := next((one for one in values.values() if isinstance(one, Declined)), None):
        return off
    edits = broken(syntax, [*(unblock(syntax, call, str(value)) for call, value in values.items()), *swapped])
    if any(is_whole(transfer.value, transfer.batch_read) for transfer in collated):
        note = "a batch of a custom class (such as BatchEncoding of older transformers) may not accept the option"
        return Fix(f"copy without blocking the host; {note}", Safety.UNSAFE, tuple(edits))
    more = [edit for found in pinned for edit in found or ()]
    if more:
        more += (edit for one in made_together(project, loaders.values()) for edit in _pinned(project, one) or ())
    if Device.UNKNOWN in elsewhere and pinned and None not in pinned:
        note = "results that the function copies to the CPU need synchronisation before they are read"
        also = " and pin the loader's memory" if more else ""
        return Fix(f"copy without blocking the host{also}; {note}", Safety.UNSAFE, (*edits, *more))
    if swapped and pinned and None not in pinned:
        return Fix(f"copy without blocking the host, and {SWAPPED}", Safety.UNSAFE, (*edits, *more))
    if pinned and None not in pinned:
        also = " and pin the loader's memory" if more else ""
        if more and any(samples_of(project, loader) is Samples.UNKNOWN for loader in loaders.values()):
            note = "an error follows if the data set, which could not be determined, has put its samples on the GPU"
            return Fix(f"copy without blocking the host{also}; {note}", Safety.UNSAFE, (*edits, *more))
        return Fix(f"copy without blocking the host{also}", Safety.SAFE, (*edits, *more))
    if None in pinned and all(project.fact(HostToDevice).is_pinned(loader) is False for loader in loaders.values()):
        return Declined("its loader does not pin its memory, and could not be changed")
    return Declined("whether the loader pins its memory could not be determined; without that nothing is gained")


def _chosen_value(project: Project, transfer: Transfer) -> str | Declined:
    """Return what to pass as ``non_blocking``: the setting that the copy beside this one passes."""
    setting = setting_beside(project, transfer) or setting_of_caller(project, transfer)
    if setting is None:
        return non_blocking(project, transfer) or Declined(MAY_BE_OTHER)
    module, text = transfer.call.module, ast.unparse(setting)
    own = setting_beside(project, transfer) is not None and is_known_at(module, setting, transfer)
    if not own or is_switched_off(project, module, setting):
        return Declined(f"`{text}` decides whether the copies beside it wait: pass it here, and set it")
    return text


def _against(project: Project, payload: Blocking) -> str:
    """Return why the copies should go on blocking; empty if nothing is seen."""
    if is_benchmark(payload.transfers[0].call.module.path):
        return "the program measures, for which it waits for the GPU"
    for transfer in payload.transfers:
        if reason := no_gain(project, transfer):
            return reason
        if is_changed_after(transfer):
            return "the host changes the batch while it is copied"
        if (line := barrier_below(transfer)) is not None:
            return f"line {line} waits for all work of the GPU right after it: nothing would overlap with the copy"
        if is_timed(transfer):
            return TIMED
    return ""


def _obstacle(payload: Blocking, elsewhere: set[Device]) -> str:
    """Return what is against copies that do not wait, whatever their loaders do."""
    if any(passes_options_on(transfer.node) for transfer in payload.transfers):
        return "the call forwards its callers' options, which may include `non_blocking`"
    if any(map(forwards_choice, payload.transfers)):
        return "the function's callers choose `non_blocking`: pass it there"
    if option := next(filter(None, map(chosen, payload.transfers)), ""):
        return f"`{option}` decides whether the copy waits: set it there"
    if predates_device_argument(payload.transfers[0].call.module):
        return "the code is for PyTorch before 0.4, which has no `non_blocking=`"
    if Device.CPU in elsewhere:
        return "the function also copies results to the CPU; without synchronisation they could be read too early"
    if any(transfer.batch_read is not None and transfer.batch_read.arrays for transfer in payload.transfers):
        return "tensors of arrays are not in pinned memory: call `.pin_memory()` first, or make them in the loader"
    return ""


def _gains_nothing(project: Project, payload: Blocking, loaders: list[Loader]) -> str:
    """Return why copies that do not wait gain nothing: without workers, pinning moves the work of the driver to the
    training process, and pays only if this goes on while the GPU works."""
    if loaders and all(has_few_batches(project, loader) for loader in loaders):
        return ONE_BATCH
    if name := next(filter(None, (unpinned_class(project, loader) for loader in loaders)), ""):
        return UNPINNED.format(name)
    unpinned = [loader for loader in loaders if project.fact(HostToDevice).is_pinned(loader) is False]
    if not unpinned or not all(loads_in_process(project, loader) for loader in unpinned):
        return ""
    return waits_anyway(project, list(payload.transfers))


def waits_anyway(project: Project, transfers: list[Transfer]) -> str:
    """Return why pinned batches gain nothing for loaders without workers: all their loops wait for each batch."""
    reads = (transfer.batch_read for transfer in transfers if transfer.batch_read is not None)
    places = dict.fromkeys(read.where for read in reads)
    if places and all(_evaluates_in_notebook(project, where) for where in places):
        return f"{WITHOUT_WORKERS}, and the notebook only evaluates with it: set `num_workers` first"
    lines = [waiting_line(project, where) for where in places]
    if not lines or None in lines:
        return ""
    return (
        f"{WITHOUT_WORKERS}, and line {lines[0]} waits for each batch: nothing would overlap with the copy; "
        "set `num_workers` first"
    )


def _evaluates_in_notebook(project: Project, where: NodeRef) -> bool:
    if not isinstance(where.node, LOOPS) or where.module.syntax.span(where.node).cell is None:
        return False
    return project.fact(LoopContexts).role(where.module, where.node) is Role.EVAL


def converts_first(copy: Blocking) -> bool:
    """Return whether all that a statement copies is made anew of the batch."""
    return all(map(_converts_first, copy.transfers))


def _converts_first(transfer: Transfer) -> bool:
    """``x.float().cuda()``, ``x[:, 1:].cuda()`` and ``x[~mask].cuda()``, which copy a new tensor, and what comes from
    NumPy."""
    func = transfer.node.func
    return isinstance(func, ast.Attribute) and is_new(transfer.call.module, func.value)


def _elsewhere(project: Project, transfer: Transfer) -> set[Device]:
    """Return where callers of a function like ``to_device(value, device)`` move what is no batch: {CPU} is a way back.

    A copy back to the host that nobody waits for is read before it is there.
    """
    call, module = transfer.node, transfer.call.module
    target = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "device")]
    function = module.function(call)
    if function is None or not target or not isinstance(call.func, ast.Attribute) or call.func.attr != "to":
        return set()
    value, device = moved_parameter(function, transfer.value), moved_parameter(function, target[0])
    if value is None or device is None:
        return set()
    found = set[Device]()
    sites = project.fact(Resolver).call_sites(module, function)
    for site in sites:
        assert isinstance(site.node, ast.Call)
        moved = argument_of(function, site.node, value)
        if site.module.function(site.node) is function or moved is None or isinstance(moved, ast.Starred):
            continue
        if project.fact(BatchFlow).batch_of(site.module, moved) is None:
            named = argument_of(function, site.node, device)
            found |= _named(project, NodeRef(module, target[0]) if named is None else NodeRef(site.module, named))
    return found if sites else {*project.fact(Devices).of(module, target[0])} - {Device.CPU}


def _named(project: Project, device: NodeRef) -> set[Device]:
    """The devices that a caller may name; the CPU alone if that is what some caller or default says."""
    for ref in project.fact(Resolver).points_to(device.module, device.node):
        parent = ref.module.syntax.parents.get(ref.node)
        said = parent is None or ref.node is device.node or isinstance(parent, ast.Call | ast.keyword | ast.arguments)
        if said and project.fact(Devices).of(ref.module, ref.node) == {Device.CPU}:
            return {Device.CPU}
    named = project.fact(Devices).of(device.module, device.node)
    return {Device.CUDA} if Device.CUDA in named else set(named)


def _strict_class(project: Project, transfer: Transfer) -> bool:
    """Return whether the program has a class whose own method of that name takes no ``non_blocking``."""
    name = last_name(transfer.node.func)
    program = project.fact(MultiGpuUse).of(transfer.call.module.path)
    defines = re.compile(rf"def {name}\(")
    for module in program.modules_where(lambda project, path: project.matches(path, defines)):
        for owner in module.classes:
            for method in owner.body:
                if isinstance(method, ast.FunctionDef) and method.name == name and method.args.kwarg is None:
                    taken = (*method.args.args, *method.args.kwonlyargs)
                    if all(arg.arg != "non_blocking" for arg in taken):
                        return True
    return False


def _loaders(project: Project, transfer: Transfer) -> tuple[Loader, ...]:
    """The loaders of a copy, without those that only try the program out."""
    loaders = transfer.batch_read.loaders if transfer.batch_read is not None else ()
    flow = project.fact(LoaderFlow)
    return tuple(
        loader
        for loader in loaders
        if not is_unreachable(loader.module, loader.node) and flow.is_loader(loader.module, loader.node)
    )


def _pinned(project: Project, loader: Loader) -> list[Edit] | None:
    """Edits after which the loader pins its memory; None if that is unknown or impossible."""
    feeding = project.fact(HostToDevice)
    state = feeding.is_pinned(loader)
    if state is not False:
        return [] if state else None
    if feeding.yields_gpu_tensors(loader) or samples_of(project, loader).risk:
        return None
    edit = pin(project, loader)
    return None if isinstance(edit, Declined) else [edit]
