"""Where workers of a loader would do little, or would not even start."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.amounts import batch_of
from gpulint.documents.call_syntax import keyword_value
from gpulint.finding import Place
from gpulint.query import query
from gpulint.reasons import says_more
from gpulint.semantic.operating_systems import (
    is_of_another_folder,
    is_of_another_system,
    is_of_another_tree,
    names_linux_folder,
)
from gpulint.workload import restarted_loaders
from gpulint.workload.daemon_processes import may_have_no_workers
from gpulint.workload.desktop_files import is_run_on_desktop
from gpulint.workload.documented_workers import documented_reason
from gpulint.workload.held_batches import keeper_of
from gpulint.workload.item_work import ItemWorks
from gpulint.workload.loader_pools import DOZENS, kept_together
from gpulint.workload.main_guards import route_to
from gpulint.workload.passed_workers import default_replaced
from gpulint.workload.persistent_workers import against_persistence
from gpulint.workload.sample_counts import has_few_batches, is_one_batch
from gpulint.workload.sample_effects import changed_for_others, takes_turns
from gpulint.workload.sent_parts import SENT, defined_in_notebook, spawns_at_home, unpicklable
from gpulint.workload.spawned_copies import spawned_work
from gpulint.workload.windows_workers import keeps_none_on_windows
from gpulint.workload.worker_supply import loads_in_process
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.libraries import Models
    from gpulint.libraries.programs import Library
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_WINDOWS = regex.compile(
    r"num_?-?workers[^\n]{0,120}(\n[^\n]{0,120})?\bwindows\b|#[^\n]{0,200}\bwindows\b[^\n]{0,200}\n[^\n]*num_?workers",
    re.IGNORECASE,
)
"""The number of workers and Windows in one line, or in two that follow each other."""
_CLIENT = regex.compile(r"(^|[a-z_])(Client|LocalUpdate)|(^|_)(client|local_update|federated|fed_?avg)", re.ASCII)
"""Names of clients of federated learning."""
_CORES = regex.compile(r"""num_cpus["']?\s*[:=]\s*(\d+)""")
FEW_CORES = 2
"""Cores of a client that leave none for workers."""
_CHOSEN = regex.compile(r"\d|worker|process", re.IGNORECASE)
"""What a comment behind ``num_workers=0`` says if its author knows the setting."""
_MANY_IMAGES = 256
_LARGER = 224
"""Images of a batch from which on, or pixels of a side above which, a copy counts though no transform is proven to give
the size (readers thanked for 1 of 9 findings below both; benchmarks/verdicts/usefulness, sets 22 to 29)."""
_LITTLE = frozenset({"transform", "loop", "collect", "tokens"})
"""Kinds of work that may take less time for an epoch than starting the workers anew."""
_FEW_BATCHES = 16
"""Batches that eight workers draw before the first step: two each."""
_TO_DO = regex.compile(r"\b(todo|fixme|increase|raise)\b", re.IGNORECASE)


def _loader(subject: Subject) -> Loader | None:
    return subject.cost.loader if subject.cost is not None else None


def is_in_web_app(subject: Subject) -> bool:
    """Return whether the program is an app in a browser, which trains on what its users give it."""
    return subject.module is not None and not subject.jobs and _is_web_app(subject.module, subject.project.models)


def _is_web_app(module: ModuleIndex, models: Models) -> bool:
    return not module.packages.isdisjoint(models.derived(_web_apps))


def _web_apps(models: Models) -> frozenset[str]:
    rows: tuple[Library, ...] = models.rows("library")
    return frozenset(name for row in rows for name in row.web_apps)


def is_of_simulated_client(subject: Subject) -> bool:
    """Return whether the loader is that of one of many clients that Flower simulates, with a core or two each."""
    loader = _loader(subject)
    return loader is not None and _simulates(subject.project) and _is_near_flower(subject.project, loader.module)


@query
def _simulates(project: Project) -> bool:
    paths = {path for word in (b"start_simulation", b"run_simulation") for path in project.python_files_with(word)}
    modules = (project.module_at(path) for path in sorted(paths) if not project.is_test(path))
    given = [
        (_CORES.search(module.syntax.source.text), module)
        for module in modules
        if module is not None and "flwr" in module.packages
    ]
    return bool(given) and all(cores is None or int(cores[1]) <= FEW_CORES for cores, _ in given)


@query
def _is_near_flower(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module, or one that imports it, uses Flower."""
    defined: Iterator[ast.ClassDef | ast.FunctionDef] = module.syntax.of(ast.ClassDef, ast.FunctionDef)
    names = {part.name for part in defined}
    return any("flwr" in one.packages for one in (module, *project.users_of(module, names)))


def is_of_small_client(subject: Subject) -> bool:
    """Return whether the loader is that of a client of federated learning, which each round draws anew from its share
    of small images: that takes about as long as to start workers."""
    loader = _loader(subject)
    if loader is None or batch_of(subject, loader).kind != "small-image":
        return False
    owner, function = loader.module.class_of(loader.node), loader.module.function(loader.node)
    names = (getattr(owner, "name", ""), getattr(function, "name", ""), loader.module.path.stem)
    return any(map(_CLIENT.search, names))


def cannot_start_workers(subject: Subject) -> bool:
    """Return whether a program that was written on macOS or Windows makes the loader without ``if __name__ ==
    "__main__"``, outside of all functions or in one that it calls there: each worker would run the whole program again,
    and fail."""
    loader = _loader(subject)
    if loader is None or subject.is_notebook:
        return False
    route = route_to(subject.project, loader.call)
    if any(job.document.path.suffix != ".py" for job in subject.jobs):
        return False
    return route.is_unguarded and (
        any(map(is_of_another_system, route.modules))
        or all(is_of_another_folder(subject.project, start.module.path.parent) for start in route.starts)
        or is_of_another_tree(subject.project)
        or any(is_run_on_desktop(subject.project, start.module.path) for start in route.starts)
    )


def cannot_be_sent(subject: Subject) -> bool:
    """Return whether workers of a program that was written on macOS or Windows cannot get what the loader hands to
    them: lambdas and local classes cannot be pickled, and what a notebook defines itself cannot be imported."""
    loader, project = _loader(subject), subject.project
    if loader is None or subject.jobs or not spawns_at_home(project, loader.module):
        return False
    return bool(defined_in_notebook(project, loader.call, SENT) or unpicklable(project, loader.call, SENT))


def costs_more_when_spawned(subject: Subject) -> bool:
    """Return whether spawned workers would make the data set again, or be sent all of its samples, in a program that
    was written on macOS or Windows."""
    loader = _loader(subject)
    return loader is not None and spawned_work(subject.project, loader) is not None


def pins_in_process(subject: Subject) -> bool:
    """Return whether the training process would copy the batches to pinned memory itself, in each step."""
    loader = _loader(subject)
    return loader is not None and loads_in_process(subject.project, loader)


def starts_anew(subject: Subject) -> bool:
    """Return whether each round of a loop starts the loader again for some batches."""
    loader = _loader(subject)
    return loader is not None and restarted_loaders.is_started_anew(subject.project, loader)


def is_iterated_in_steps(subject: Subject) -> bool:
    """Return whether each step of another loader iterates over samples in memory that take little work, which is done
    in about the time in which workers make their first batches."""
    loader = _loader(subject)
    work = subject.project.fact(ItemWorks).of(loader) if loader is not None else None
    if loader is None or work is None or not work.known or not _LITTLE.issuperset(work.kinds):
        return False
    return restarted_loaders.is_iterated_in_steps(subject.project, loader)


def keeps_batches(subject: Subject) -> bool:
    """Return whether the program keeps the batches, each of which would hold file descriptors if workers sent it, and
    which ``itertools.cycle`` draws once alone."""
    loader = _loader(subject)
    return loader is not None and bool(keeper_of(subject.project, loader))


def makes_one_batch(subject: Subject) -> bool:
    """Return whether one batch holds all samples, so that there is none to prepare during a step."""
    loader = _loader(subject)
    return loader is not None and has_few_batches(subject.project, loader)


def has_short_passes(subject: Subject) -> bool:
    """Return whether a pass has so few batches that workers, which start by drawing two each, leave few to prepare
    during the steps."""
    loader = _loader(subject)
    return loader is not None and is_one_batch(subject.project, loader, _FEW_BATCHES)


def keeps_samples(subject: Subject) -> bool:
    """Return whether the data set stores the samples that it has made. Each worker would fill a store of its own, and
    lose it at the end of the epoch unless the workers are persistent."""
    loader = _loader(subject)
    return loader is not None and subject.project.fact(ItemWorks).of(loader).keeps


def restarts_for_little(subject: Subject) -> bool:
    """Return whether workers would have to start again for each pass, for samples that take little work."""
    loader = _loader(subject)
    if loader is None or not against_persistence(subject.project, loader):
        return False
    return _LITTLE.issuperset(subject.project.fact(ItemWorks).of(loader).kinds)


def may_not_start_workers(subject: Subject) -> bool:
    """Return whether a daemonic process makes the loader, in which starting workers raises an error."""
    loader = _loader(subject)
    return loader is not None and may_have_no_workers(subject.project, loader)


def counts_samples(subject: Subject) -> bool:
    """Return whether each sample changes what the program reads later, which workers would not."""
    loader = _loader(subject)
    return loader is not None and bool(changed_for_others(subject.project, loader))


def takes_next(subject: Subject) -> bool:
    """Return whether each sample takes the next of an iterator or a position that the data set keeps, of which each
    worker would have a copy."""
    loader = _loader(subject)
    return loader is not None and bool(takes_turns(subject.project, loader))


def is_for_windows(subject: Subject) -> bool:
    """Return whether a line that sets the number of workers, or speaks of it, names Windows: a comment, or the help of
    an option, in the module of the loader or that of the default."""
    loader = _loader(subject)
    if loader is None:
        return False
    paths = {place.path for place in subject.finding.related}
    modules = {loader.module, *(found for path in paths if (found := subject.project.module_at(path)) is not None)}
    return any(map(_names_windows, modules))


def has_none_on_windows(subject: Subject) -> bool:
    """Return whether the tree keeps its loaders without workers on Windows, no job starts the program, and its module
    names no folder of Linux: its authors train on Windows, and know of workers."""
    loader, project = _loader(subject), subject.project
    if loader is None or subject.jobs or not keeps_none_on_windows(project):
        return False
    return not names_linux_folder(project, loader.module.path)


@query
def _names_windows(module: ModuleIndex) -> bool:
    return regex.occurs(_WINDOWS, module.syntax.source.text)


def is_chosen(subject: Subject) -> bool:
    """Return whether a comment behind ``num_workers=0`` names another number, or workers, or says more than what the
    setting is."""
    return _replaces(subject, "num_workers", 0, lambda text: bool(_CHOSEN.search(text)) or says_more(text))


def is_unpinned_by_choice(subject: Subject) -> bool:
    """Return whether ``pin_memory=False`` is written out."""
    loader = _loader(subject)
    given = keyword_value(loader.node, "pin_memory") if loader is not None else None
    return isinstance(given, ast.Constant) and given.value is False


def copies_few_images(subject: Subject) -> bool:
    """Return whether the batches are of few images, whose size is not certain and seems to be the usual one."""
    loader = _loader(subject)
    batch = batch_of(subject, loader) if loader is not None else None
    return (
        batch is not None
        and batch.kind == "image"
        and batch.stated
        and batch.sample is None
        and batch.size < _MANY_IMAGES
        and batch.side <= _LARGER
    )


def _replaces(subject: Subject, name: str, value: object, says: Callable[[str], bool]) -> bool:
    """Return whether a comment behind an argument of the loader's call that is ``value`` says something of it."""
    loader = _loader(subject)
    given = keyword_value(loader.node, name) if loader is not None else None
    if loader is None or not isinstance(given, ast.Constant) or given.value != value or subject.document is None:
        return False
    span = loader.module.syntax.span(given)
    comment = subject.document.cell_source(span.cell).line(span.line).partition("#")[2]
    return says(comment) and not _TO_DO.search(comment)


def is_documented(subject: Subject) -> bool:
    """Return whether the documentation of the tree says why the loaders have no workers."""
    return bool(documented_reason(subject.project, subject.finding.path))


def is_passed_over_default(subject: Subject) -> bool:
    """Return whether a command passes 0 workers to a program that has some by default."""
    places = [*subject.finding.related, Place(subject.finding.path, subject.finding.span)]
    return any(default_replaced(subject.project, place.path, place.span) for place in places)


def is_one_of_dozens(subject: Subject) -> bool:
    """Return whether the program keeps dozens of loaders from one place, each of which would start workers."""
    loader = subject.cost.loader if subject.cost is not None else None
    return loader is not None and kept_together(subject.project, loader) >= DOZENS
