"""What to do about a loader without workers, and what workers need first."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.finding import Place
from gpulint.impact_causes import SET_TOO
from gpulint.placement.batch_flow import BatchFlow, BatchRead
from gpulint.programs.process_cores import cores_per_process
from gpulint.programs.stated_releases import LASTING_WORKERS, SEEDED_NUMPY, may_leave_numpy_unseeded, may_predate
from gpulint.project import Project
from gpulint.semantic.callers import callers
from gpulint.source import Span
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.training.one_item_loops import has_one_round
from gpulint.transfers.shard_counts import most_workers
from gpulint.values.constants import Constants, Value
from gpulint.workload.changed_parts import parts_change_within_pass
from gpulint.workload.converted_samples import picks_many_rows
from gpulint.workload.documented_workers import documented_zero
from gpulint.workload.global_draws import NUMPY, drawing_set, global_draw
from gpulint.workload.gpu_samples import pinning_part
from gpulint.workload.item_work import ItemWorks
from gpulint.workload.main_guards import fails_outside_guard, would_run_again
from gpulint.workload.opened_early import opened_early
from gpulint.workload.own_random_states import drawn_state
from gpulint.workload.persistent_workers import against_persistence
from gpulint.workload.refreshed_data import changes_within_pass
from gpulint.workload.replaced_functions import replaced_function
from gpulint.workload.restarted_loaders import is_started_anew, serves_one_batch
from gpulint.workload.sample_effects import steers_itself
from gpulint.workload.sampler_states import followed_sampler
from gpulint.workload.samples_with_gradients import have_gradients, run_recording_model
from gpulint.workload.sent_parts import (
    INNER,
    SENT,
    defined_in_notebook,
    may_spawn,
    spawned_part,
    spawns_at_home,
    unsent,
)
from gpulint.workload.spawned_copies import spawned_work
from gpulint.workload.trainer_workers import UnhelpedTrainer
from gpulint.workload.transform_states import drawing_transform
from gpulint.workload.worker_callers import worker_callers, zero_callers
from gpulint.workload.worker_supply import shares_client, shares_engine, shares_handle
from gpulint.workspace.module_index import LOOPS, LoopNode, ModuleIndex, NodeRef, last_name

_OPENS = "open the data set's file in each worker (on the first `__getitem__`), then "
_CONNECTS = "make the data set's client in each worker (on the first `__getitem__`), then "
_STARTS = "make what the data set computes with in each worker (on the first `__getitem__`), then "
_COUNTS = (
    "change the data set in the loop over epochs instead of where `self.{}` reaches a number (each worker would count "
    "for itself), then set `num_workers=`"
)
_OWN_CACHES = " (each worker fills a cache of its own, which lasts with `persistent_workers=True`)"
_LASTING = ", and `persistent_workers=True` to keep them for all epochs"
_GIVEN = {"launcher": ("passes", "are passed here"), "config": ("sets", "are set here")}
"""What sets a number in place of a program's default -> what is said of it, and of its place."""
_KEY = regex.compile(r"([\w-]+)[\"']?\s*[:=]\s*$")
_PLAIN_KEY = regex.compile(
    r"(train_?|data_?|loader_?|dataloader_?)?(num|n|nb|number_of)?[_-]?(data|loader|dataloader)?[_-]?(workers?|threads?|processes|proc|cpus?)"
    r"([_-]per[_-]\w+)?",
    re.IGNORECASE,
)
"""Names of the one number of workers that a program has."""
_WHOLE = ", or let `__getitem__` take the indices of a whole batch (`sampler=BatchSampler(...)`, `batch_size=None`)"
_CALLS = 3
"""Calls through which the loops are looked for that make a new loader in each round."""
_MANY = 16
"""More shards than this leave enough for as many workers as help one GPU."""
_NEXT_PASS = " (workers see what the loop changes for its samples from the next pass on, without `persistent_workers`)"
_DRAWN_AHEAD = "; `{}` is then ahead of the loop by `num_workers * prefetch_factor` batches"

_REPLACED = "call `{2}` ({0} replaces `{1}` by a number, and workers that call it end with a TypeError), then "
_SEEDS_NUMPY = "seed NumPy in each worker (`worker_init_fn`; before PyTorch 1.9 all draw the same from `{}`), then "
_SEEDS_TRANSFORM = (
    "seed `{0.name}` in each worker (a `worker_init_fn` that calls its `{0.seeded}`; all would draw the same numbers), "
    "then "
)
_UNSEEDED = " (before PyTorch 1.9 with a `worker_init_fn` that seeds NumPy, as samples{} draw from `{}`)"


def _stays(project: Project, loader: Loader) -> str:
    """Return what keeps the workers of a loader that a loop over epochs draws from; empty where they should end."""
    loops = project.fact(LoopContexts)
    reads = project.fact(BatchFlow).of_loader(loader.module, loader.node)
    made_in = {up for at in callers(project, loader.call, _CALLS) for up in loops.around(at.ref.module, at.ref.node)}
    drawn_again = any(
        up is not read.where.node
        and up not in made_in
        and loops.role(module, up) is Role.EPOCH
        and not has_one_round(project, module, up)
        for read in reads
        for module, up in _loops_of(project, loader, read)
    )
    if not drawn_again or project.fact(ItemWorks).of(loader).keeps or _changes_within_pass(project, loader):
        return ""
    given = any(keyword.arg in ("persistent_workers", None) for keyword in loader.node.keywords)
    if given or against_persistence(project, loader) or may_predate(project, loader.module, LASTING_WORKERS):
        return ""
    return _LASTING


def _loops_of(project: Project, loader: Loader, read: BatchRead) -> Iterator[tuple[ModuleIndex, LoopNode]]:
    """Yield the loops around a place that draws the batches of a loader, also those that call its function with it."""
    loops, at = project.fact(LoopContexts), read.where
    yield from ((at.module, up) for up in loops.around(at.module, at.node))
    function = at.module.function(at.node)
    for context in loops.enclosing_loops_of_function(at.module, function) if function is not None else ():
        loop = context.loop.node
        if isinstance(loop, LOOPS) and project.fact(BatchFlow).passes_loader(loader, read, context):
            yield context.loop.module, loop


def advice(project: Project, loader: Loader) -> str:
    """Return what to do, with what workers of the loader need first."""
    of = f" of `{loader.variable}`" if loader.variable else ""
    if serves_one_batch(project, loader):
        return f"draw each batch{of} by a batch sampler of one loader that lasts, then set `num_workers=`"
    if is_started_anew(project, loader):
        return f"draw the batches{of} from one iterator that starts again when it ends, then set `num_workers=`"
    if part := spawned_part(project, loader.call):
        return f"define what `{part}` holds in a module (processes are spawned here), then set `num_workers=`"
    if needs := _spawned_elsewhere(project, loader):
        return f"{needs}, then set `num_workers=`{of}"
    if name := steers_itself(project, loader):
        return _COUNTS.format(name) + of
    first = _in_workers(project, loader)
    if replaced := replaced_function(project, loader):
        first += _REPLACED.format(*replaced)
    if not first and (name := opened_early(project, loader)):
        first = f"let each worker open `self.{name}` itself (the training process opens it first), then "
    if name := pinning_part(project, loader):
        first += f"let the loader pin (`pin_memory=True`) instead of `{name}` (workers cannot), then "
    if have_gradients(project, loader):
        first += "make the samples without `requires_grad=True` (workers cannot batch them), then "
    elif run_recording_model(project, loader):
        first += "make the samples under `torch.no_grad()` (workers cannot batch what records gradients), then "
    first += _seeds(project, loader)
    drawn = _drawn_unseeded(project, loader)
    some = drawing_set(project, loader, NUMPY) if drawn else ""
    needs_seeds = may_predate(project, loader.module, SEEDED_NUMPY) and not some
    if drawn and needs_seeds:
        first += (
            f"seed NumPy in each worker (`worker_init_fn`; before PyTorch 1.9 all draw the same from `{drawn}`), then "
        )
    if cores_per_process(project, loader.module.path) == 1:
        first += "request more cores for each GPU (the job requests at most one per process), then "
    shards = most_workers(project, loader)
    most = f", at most to its {shards} shard{'s' * (shards != 1)}" if shards is not None and shards < _MANY else ""
    said = f"{first}set `num_workers=`{of} to the job's cores per GPU{most}{_stays(project, loader)}"
    if drawn and not needs_seeds:
        said += _UNSEEDED.format(f" of `{some}`" if some else "", drawn)
    if name := followed_sampler(project, loader):
        said += _DRAWN_AHEAD.format(name)
    if not project.fact(ItemWorks).of(loader).kinds and picks_many_rows(project, loader):
        said += _WHOLE
    if project.fact(ItemWorks).of(loader).keeps:
        return said + _OWN_CACHES
    return said + (_NEXT_PASS if _changes_within_pass(project, loader) else "")


def _seeds(project: Project, loader: Loader) -> str:
    """Return which random state each worker has to seed for itself, as the start of the advice; empty if none."""
    if name := drawn_state(project, loader):
        return f"seed {name} in each worker (`worker_init_fn`; all would draw the same numbers), then "
    drawing = drawing_transform(project, loader)
    return _SEEDS_TRANSFORM.format(drawing) if drawing is not None else ""


def _drawn_unseeded(project: Project, loader: Loader) -> str:
    """Return the function of NumPy that samples are drawn with where workers may all draw the same from it, as their
    release of PyTorch may seed no NumPy in them, and the program does not; empty if there is none."""
    if not loader_argument(project, loader, "worker_init_fn").is_absent:
        return ""
    name = global_draw(project, loader, NUMPY)
    return name if name and may_leave_numpy_unseeded(project, loader.module) else ""


def _in_workers(project: Project, loader: Loader) -> str:
    """Return what of the data set each worker has to make for itself, as the start of the advice; empty if nothing."""
    if shares_handle(project, loader):
        return _OPENS
    if shares_client(project, loader):
        return _CONNECTS
    return _STARTS if shares_engine(project, loader) else ""


def said(project: Project, default: list[Value], *, known: bool) -> str:
    """Return how the number of workers comes to be 0, as the end of a message."""
    if given := [value for value in _ordered(default) if value.source in _GIVEN]:
        verb, place = _GIVEN[given[0].source][0], given[0].place
        if given[0].source == "config" and (key := _other_key(project, place)):
            return f" ('{place.path.name}' sets {key} to 0)"
        return f" ('{place.path.name}' {verb} 0 workers)"
    return " by default" if default else " (num_workers is 0)" if known else ""


def _other_key(project: Project, place: Place) -> str:
    """Return the key that a file of settings sets to 0 where the file may have another number of workers as well
    (``legacy_num_workers: 0`` below ``num_workers: 2``); empty for a plain name."""
    document = project.document(place.path)
    line = document.source.line(place.span.line)[: place.span.column - 1] if document is not None else ""
    found = _KEY.search(line)
    return "" if found is None or _PLAIN_KEY.fullmatch(found[1]) else found[1]


def _passing(project: Project, loader: Loader) -> tuple[Place, ...]:
    """Return the calls that pass 0 workers to the function that makes a loader, if several could."""
    if len(worker_callers(project, loader)) < 2:
        return ()
    at = project.fact(Constants).place
    return tuple(dict.fromkeys(at(one.number, "0 workers are set here") for one in zero_callers(project, loader)))


def notes(project: Project, loader: Loader, default: list[Value], workers: tuple[NodeRef, ...]) -> tuple[Place, ...]:
    """Return the place that gives 0 workers to what could have another number: a command, a file of settings, the
    default, with the documented command that passes 0 as well, or the calls that train."""
    if not default:
        return _passing(project, loader)
    found = [
        Place(value.place.path, value.place.span, f"0 workers {_GIVEN.get(value.source, ('', 'by default'))[1]}")
        for value in _ordered(default)[:1]
    ]
    if _ordered(default)[0].source in _GIVEN:
        return tuple(found)
    names = [last_name(ref.node) for ref in workers if isinstance(ref.node, ast.Attribute)]
    passed = (documented_zero(project, found[0].path, name) for name in names)
    if (at := next(filter(None, passed), None)) is not None:
        found.append(Place(at[0], Span(at[1], 1, at[1], 1), SET_TOO))
    return tuple(found)


def _ordered(default: list[Value]) -> list[Value]:
    """Return the values with those first that replace the others: of a command, then of a file of settings."""
    ranks = {source: rank for rank, source in enumerate(_GIVEN)}
    return sorted(default, key=lambda value: ranks.get(value.source, len(ranks)))


def _changes_within_pass(project: Project, loader: Loader) -> bool:
    return changes_within_pass(project, loader) or parts_change_within_pass(project, loader)


def trainer_advice(trainer: UnhelpedTrainer) -> str:
    """Return what to do about a trainer of Hugging Face without workers, which moves its batches to the GPU itself."""
    workers = "set `dataloader_num_workers=` to the job's cores per GPU"
    if not trainer.moves:
        return workers
    module, call = trainer.moves[0].module, trainer.moves[0].node
    function = module.function(call)
    name = f" of `{function.name}`" if function is not None else ""
    assert isinstance(call, ast.Call)
    return f"remove `.{last_name(call.func)}(...)`{name}, as the trainer moves the batches, then {workers}"


def trainer_notes(trainer: UnhelpedTrainer) -> list[tuple[NodeRef, str]]:
    """Return what a trainer without workers does in the training process, and what workers could not do."""
    moves = [(ref, "a worker could not move this to the GPU") for ref in trainer.moves[:1]]
    return [(trainer.step, f"{trainer.work} in the training process"), *moves]


def _spawned_elsewhere(project: Project, loader: Loader) -> str:
    """Return what workers need first on Windows or macOS, where the program may run; empty if nothing is missing."""
    if spawns_at_home(project, loader.module) and (name := defined_in_notebook(project, loader.call, SENT)):
        return f"define `{name}` in a module (spawned processes cannot import it from the notebook)"
    found = unsent(project, loader.call, SENT)
    if found is not None and may_spawn(project, loader.module):
        if found.what != INNER:
            return f"make {found.what} in each worker (Windows and macOS spawn processes, which cannot be sent it)"
        return f"define what `{found.name}` holds at the top level of a module (Windows and macOS spawn processes)"
    if would_run_again(project, loader.call):
        return "start the program behind `if __name__ == '__main__':` (Windows and macOS spawn processes)"
    if fails_outside_guard(project, loader.call):
        return "move what runs beside `if __name__ == '__main__':` into it (Windows and macOS spawn processes)"
    work = spawned_work(project, loader)
    return work.first if work is not None else ""
