"""The loaders that a setting of their number of workers reaches."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.training.loader_flow import LoaderFlow
from gpulint.workload.dataset_work import parts_of, works_per_sample
from gpulint.workload.desktop_files import is_written_for_desktop
from gpulint.workload.gpu_samples import gpu_part
from gpulint.workload.sent_parts import SENT, unpicklable
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name
from gpulint.workspace.word_index import word_of
from gpulint_fixers.loading.exchanged_samples import exchanging_part
from gpulint_fixers.loading.other_frameworks import foreign_gpu_samples
from gpulint_fixers.loading.random_order import may_draw
from gpulint_fixers.loading.repeated_draws import draws_differ
from gpulint_fixers.loading.shared_states import copied_random_state
from gpulint_fixers.loading.worker_obstacles import is_stream, looks_up

_KEY = regex.compile(r"([A-Za-z_][\w-]*)[\s:=\"']*$")
_LONGEST = 200
"""Characters in front of a number among which its key is looked for."""


def obstacle_of_setting(project: Project, before: str, path: Path) -> str:
    """Return why a number of workers should not be raised in a file, with what is written before it; empty if nothing
    says so."""
    key = _key(before)
    if key and (maker := foreign_gpu_samples(project, key, path)):
        return f"it reaches a loader whose samples `{maker}` makes on the GPU by default, which worker processes cannot"
    if is_written_for_desktop(project, path) and not _can_be_spawned(project, key):
        return (
            "the file names folders of Windows or macOS, where processes are spawned, and it is not certain that they "
            "can be sent the data set and its transforms"
        )
    return _obstacle(project, key) if key else ""


@query
def _can_be_spawned(project: Project, key: str) -> bool:
    """Return whether all loaders that read a setting are seen, of data sets that can be pickled."""
    loaders = list(_loaders(project, key)) if key else []
    known = all(_has_known_class(project, loader) for loader in loaders)
    return bool(loaders) and known and not any(unpicklable(project, loader.call, SENT) for loader in loaders)


def _has_known_class(project: Project, loader: Loader) -> bool:
    made = parts_of(project, loader)
    classes_of = project.fact(Resolver).classes_of
    return bool(made) and all(isinstance(one.node, ast.expr) and bool(classes_of(one.module, one.node)) for one in made)


def setting_may_draw(project: Project, before: str) -> bool:
    """Return whether any loader that reads a number of workers may make samples with random numbers, or none is
    seen."""
    loaders = list(_loaders(project, key)) if (key := _key(before)) else []
    return not loaders or any(may_draw(project, loader) for loader in loaders)


def _key(before: str) -> str:
    found = _KEY.search(before[-_LONGEST:])
    return found[1].replace("-", "_") if found is not None else ""


@query
def _obstacle(project: Project, key: str) -> str:
    loaders = list(_loaders(project, key))
    for loader in loaders:
        if is_stream(project, loader):
            return "it reaches a loader whose data set is a stream, all of which each of several workers would yield"
        if gpu_part(project, loader):
            return "it reaches a loader whose samples may be made on the GPU, which forked workers cannot use"
        if name := exchanging_part(project, loader):
            return f"it reaches a loader whose `{name}` exchanges messages with other processes of the program"
        if reason := copied_random_state(project, loader):
            return f"in a loader that it reaches, {reason}"
        if reason := draws_differ(project, loader):
            return f"it reaches a loader whose {reason}"
    if loaders and all(looks_up(project, loader) or not works_per_sample(project, loader) for loader in loaders):
        return "it reaches only loaders whose samples are in memory, so workers may not pay off: measure first"
    return ""


def _loaders(project: Project, key: str) -> Iterator[Loader]:
    for path in sorted(project.word_index.mentioning(word_of(key))):
        module = project.module_at(path)
        if module is None:
            continue
        for loader in project.fact(LoaderFlow).in_module(module):
            if any(_reads(module, ref, key) for ref in loader_argument(project, loader, "num_workers").refs):
                yield loader


def _reads(module: ModuleIndex, passed: NodeRef, key: str) -> bool:
    """``cfg.num_workers``, or a variable that is computed of it."""
    values = [passed.node]
    if isinstance(passed.node, ast.Name) and passed.module is module:
        values += [one.value for one in module.scope(passed.node).lookup(passed.node.id) if one.value is not None]
    names = (part for value in values for part in walk(value) if isinstance(part, ast.Name | ast.Attribute))
    return any(last_name(name) == key for name in names) or any(
        isinstance(part, ast.Constant) and part.value == key for value in values for part in walk(value)
    )
