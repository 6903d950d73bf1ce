"""Why workers of a loader would gain nothing, change its samples or not even start."""

from __future__ import annotations

import ast
from pathlib import Path

from gpulint.documents.python import walk
from gpulint.placement.host_to_device import HostToDevice
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.properties import properties
from gpulint.training.given_values import is_for_missing_argument
from gpulint.training.loader_calls import TORCH_LOADER, Loader, loader_argument
from gpulint.values.constants import Constants
from gpulint.values.parameter_defaults import default_at
from gpulint.workload.conversions import CHEAP
from gpulint.workload.daemon_processes import is_made_for_clients, is_made_in_each_process, may_have_no_workers
from gpulint.workload.dataset_work import parts_of
from gpulint.workload.default_tensors import defaults_to_gpu
from gpulint.workload.gpu_samples import gpu_part, pinning_part
from gpulint.workload.handed_handles import handed_handle
from gpulint.workload.held_batches import keeper_of
from gpulint.workload.item_work import ItemWorks
from gpulint.workload.loader_pools import DOZENS, kept_together
from gpulint.workload.main_guards import fails_outside_guard, would_run_again
from gpulint.workload.replaced_functions import replaced_function
from gpulint.workload.restarted_loaders import is_started_anew
from gpulint.workload.sample_counts import has_few_batches, has_few_samples, most_samples
from gpulint.workload.sampler_states import followed_sampler
from gpulint.workload.sent_parts import (
    INNER,
    SENT,
    defined_in_notebook,
    has_spawned_workers,
    may_spawn,
    spawns_at_home,
    unsent,
)
from gpulint.workload.spawned_copies import spawned_work
from gpulint.workspace.module_index import NodeRef, last_name
from gpulint_fixers.loading.exchanged_samples import exchanging_part
from gpulint_fixers.loading.failing_homes import never_made
from gpulint_fixers.loading.host_samples import Samples, samples_of
from gpulint_fixers.loading.loader_lifetimes import (
    ONE_BATCH,
    is_for_a_look,
    is_kept_by_each_round,
    is_one_of_many,
    is_short_lived,
)
from gpulint_fixers.loading.shared_memory import with_little_memory
from gpulint_fixers.loading.shared_states import shared_state

SENT_BY_TRAINER = ("data_collator", "train_dataset", "eval_dataset")
_ARRAYS = ("torch.", "numpy.")
_FILES = frozenset({"load", "loadtxt", "genfromtxt", "fromfile", "memmap"})
_CONVERTS = frozenset(
    "tensor Tensor FloatTensor LongTensor IntTensor DoubleTensor BoolTensor array asarray tolist".split()
)
"""What may go through a list number by number."""
_STATISTICS = frozenset({"mean", "std", "var", "copy"})
_UNGUARDED = (
    "the program makes the loader without `if __name__ == '__main__'`, which workers need where processes are spawned, "
    "as on Windows or macOS: put it into a function that is called there"
)
_HELPERS = 2
"""How many calls deep the helpers of a data set are followed."""


def obstacle(project: Project, loader: Loader, workers: NodeRef | None, sent: tuple[str, ...] = SENT) -> str:
    """Return why a loader that is given 0 ``workers``, or none, should not get any; empty where nothing says so. Its
    workers are ``sent`` the arguments of these names as they are."""
    if may_have_no_workers(project, loader):
        return "the loader is created in a process of a multiprocessing pool, which may not start workers"
    if is_made_in_each_process(project, loader):
        return "each process of a pool makes the loader, and would start workers of its own beside the others"
    if is_made_for_clients(project, loader):
        return "each client of a federated training makes the loader anew in each round, and would start workers again"
    if is_for_missing_argument(project, loader.module, loader.node, _users_of_default(project, workers)):
        return "each call in the tree passes a loader of its own, so that this one is not made"
    if is_for_a_look(loader):
        return "the loader is for a look at a few samples, for which starting workers takes longer"
    if is_one_of_many(project, loader):
        return "the program reads each of many loaders once, whose workers would all stay alive"
    if is_kept_by_each_round(loader):
        return "each round of a loop makes a loader that stays, and the workers of all of them would stay alive"
    if (kept := kept_together(project, loader)) >= DOZENS:
        return f"the program keeps {kept} such loaders, each of which would start workers: give them to the training's"
    if is_short_lived(project, loader):
        return "the loader is made anew for each of many short runs, all of which would start workers"
    if is_started_anew(project, loader):
        return "each round of a loop starts the loader anew, and would start workers for a few batches"
    if has_few_batches(project, loader):
        return ONE_BATCH
    if has_few_samples(project, loader):
        return f"{most_samples(project, loader)} samples take less time than starting workers for them"
    if keeper := keeper_of(project, loader):
        return f"{keeper} keeps the batches, each tensor of which would hold a file descriptor if a worker sent it"
    if file := with_little_memory(project, loader.module.path):
        return (
            f"containers of {file} have 64 MB of shared memory, through which workers hand over batches: give them "
            "more first (an `emptyDir` with `medium: Memory` at /dev/shm, `shm_size` in Compose)"
        )
    if reason := _of_samples(project, loader):
        return reason
    if name := followed_sampler(project, loader):
        return f"the loop follows the state of `{name}` batch by batch, and workers draw from it several batches ahead"
    if reason := never_made(project, loader) or shared_state(project, loader) or _fails_to_start(project, loader):
        return reason
    if looks_up(project, loader):
        return "each sample seems to be looked up in memory, so workers may not pay off: measure first"
    if reason := not_started(project, loader.call, sent):
        return reason
    work = spawned_work(project, loader)
    return work.reason if work is not None else ""


def _fails_to_start(project: Project, loader: Loader) -> str:
    """Return why the workers of a loader would end as they start; empty where nothing says so."""
    if (replaced := replaced_function(project, loader)) is None:
        return ""
    return (
        f"{replaced.where} replaces `{replaced.function}` by a number, and workers that call it end with a "
        f"TypeError: call `{replaced.call}` first"
    )


def _of_samples(project: Project, loader: Loader) -> str:
    """Return why workers could not make the samples of a loader, or send them; empty where nothing says so."""
    if defaults_to_gpu(project, loader.module, True):
        return "the program makes tensors on the GPU where no device is given; forked workers cannot use it"
    if samples_of(project, loader) is Samples.MAYBE_GPU:
        return "a device is passed to what makes the samples or batches; forked workers cannot use a GPU"
    if name := gpu_part(project, loader):
        return f"each sample is made with `{name}`, which may be on the GPU; forked workers cannot use it"
    if name := pinning_part(project, loader):
        return f"`{name}` pins what it makes, which needs the GPU and is not possible in a forked worker"
    if name := exchanging_part(project, loader):
        return f"`{name}` exchanges messages with the other processes of the program, of which a worker is none"
    if is_stream(project, loader):
        return "several workers change the order in which the data set yields its samples"
    if entry := handed_handle(project, loader):
        return f"samples hold `{entry}`, which is still in its file and cannot be sent from a worker: read it (`[...]`)"
    return ""


def _users_of_default(project: Project, workers: NodeRef | None) -> frozenset[Path]:
    """The modules whose calls leave the default of another function in force, which the number of workers is; none
    where it is set otherwise."""
    if workers is None or not isinstance(workers.node, ast.expr):
        return frozenset()
    found = set[Path]()
    for value in project.fact(Constants).of(workers.module, workers.node).values:
        home = project.module_at(value.place.path)
        default = default_at(home, value.place) if home is not None else None
        if home is None or default is None:
            return frozenset()
        found |= {site.module.path for site in project.fact(Resolver).call_sites(home, default[0])}
    return frozenset(found)


def not_started(project: Project, call: NodeRef, sent: tuple[str, ...]) -> str:
    """Return why workers would fail where a program is likely to spawn them: what they are sent, or the code that each
    of them would run again."""
    if reason := not_sent(project, call, sent):
        return reason
    if would_run_again(project, call):
        return _UNGUARDED
    if said := fails_outside_guard(project, call):
        return f"{said}, also in each worker where processes are spawned, as on Windows or macOS: guard it first"
    return ""


def not_sent(project: Project, call: NodeRef, names: tuple[str, ...]) -> str:
    """Return why workers would not start on the system that a program was written on, where processes are spawned: what
    they need cannot be pickled."""
    assert isinstance(call.node, ast.Call)
    if spawns_at_home(project, call.module) and (name := defined_in_notebook(project, call, SENT)):
        return f"the notebook defines `{name}`, which workers that are spawned cannot import: put it into a module"
    found = unsent(project, call, names)
    if found is not None and (has_spawned_workers(call.node) or may_spawn(project, call.module)):
        first = "define it at the top level of a module" if found.what == INNER else "make it in each worker"
        return f"{found.phrase}, which cannot be sent to workers that are spawned: {first} first"
    return ""


def is_stream(project: Project, loader: Loader) -> bool:
    """Return whether the data set is a stream of the tree (``__iter__`` without ``__getitem__``)."""
    resolver = project.fact(Resolver)
    for source in project.fact(HostToDevice).sources(loader):
        assert isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node):
            if resolver.method(where, owner, "__iter__") and not resolver.method(where, owner, "__getitem__"):
                return True
    return False


def looks_up(project: Project, loader: Loader) -> bool:
    """Return whether a data set of the tree only picks its samples, which nothing but PyTorch puts together."""
    if loader.name != TORCH_LOADER or not loader_argument(project, loader, "collate_fn").is_absent:
        return False
    resolver, work = project.fact(Resolver), project.fact(ItemWorks).of(loader)
    if work.kinds or not work.known:
        return False
    sources = parts_of(project, loader)
    getters = [
        resolver.method(where, owner, "__getitem__")
        for source in sources
        if isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node)
    ]
    return len(getters) == len(sources) > 0 and all(
        getter is not None and _is_plain(project, getter, _HELPERS) for getter in getters
    )


@query
def _is_plain(project: Project, function: NodeRef, helpers: int) -> bool:
    """Return whether a function, and those of the tree that it calls, compute on arrays in memory at most."""
    resolver = project.fact(Resolver)
    for part in walk(function.node):
        if isinstance(part, ast.With | ast.For | ast.While):
            return False
        if not isinstance(part, ast.Call):
            continue
        if last_name(part.func) in _CONVERTS:
            return False
        if last_name(part.func) in CHEAP | _STATISTICS:
            continue
        names = resolver.call_names(function.module, part)
        if any(name.startswith(_ARRAYS) for name in names) and last_name(part.func) not in _FILES:
            continue
        called = resolver.callees(function.module, part) if helpers else []
        if not called or not all(_is_plain(project, one, helpers - 1) for one in called):
            return False
    read = properties(project, function)
    return not read or (helpers > 0 and all(_is_plain(project, one, helpers - 1) for one in read))
