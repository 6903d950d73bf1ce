"""Data sets whose samples depend on what earlier ones have changed: each worker would go on with a copy of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.libraries.names import matches
from gpulint.placement.host_to_device import HostToDevice
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader
from gpulint.workload.dataset_work import sets_of
from gpulint.workload.given_up import is_given_up
from gpulint.workload.gpu_samples import kept_attributes, reached
from gpulint.workload.kept_samples import keeps_results
from gpulint.workload.library_handles import handles
from gpulint.workload.opened_early import opened_early
from gpulint.workload.own_random_states import drawn_state, random_states
from gpulint.workload.remembered_samples import remembered
from gpulint.workload.sample_effects import changed_for_others, counted_up
from gpulint.workload.samples_with_gradients import have_gradients, run_recording_model
from gpulint.workload.transform_states import drawing_transform
from gpulint.workload.worker_supply import shares_client, shares_engine, shares_handle
from gpulint.workspace.module_index import ModuleIndex, NodeRef

_CLIENT = regex.compile(
    r"(^|_)(s3|minio|boto3?|gcs|redis|mongo|sql|db|database|conn|connection|cursor|client|session|socket|bucket)(_?store)?$",
    re.IGNORECASE,
)
"""Names of clients that callers pass."""
_OF_CONTAINERS = frozenset("append copy count extend get index items keys pop update values".split())
"""Methods of lists and dictionaries, which are no clients."""
_SHARED = "a client of the parent process, whose connections"
_MAX_HOLDERS = 2
"""How many objects deep what a data set holds is looked at."""


def shared_state(project: Project, loader: Loader) -> str:
    """Return why several workers would give other samples than one process; empty where nothing says so."""
    resolver = project.fact(Resolver)
    for source in project.fact(HostToDevice).sources(loader):
        assert isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node):
            if reason := _of_class(project, where, owner):
                return reason
    if reason := copied_random_state(project, loader):
        return reason
    if shares_handle(project, loader):
        return (
            "the data set opens a file before its workers start, which they would share: open it in each worker first"
        )
    if shares_client(project, loader):
        return "the data set has a client of the parent process, whose connections forked workers would share"
    if shares_engine(project, loader):
        return "the data set computes in threads or a context of the parent process, which forked workers would lack"
    if name := opened_early(project, loader):
        return (
            f"the training process opens `self.{name}` before its workers start, which would share it: close it there, "
            "and let each worker open its own"
        )
    if have_gradients(project, loader):
        return "the samples are made with `requires_grad=True`, which workers can neither batch nor send"
    if run_recording_model(project, loader):
        return "samples are outputs of a model that record gradients, which workers can neither batch nor send"
    if name := changed_for_others(project, loader):
        return f"each sample changes `self.{name}`, which the program reads: workers would change copies of their own"
    if name := remembered(project, loader):
        return f"samples depend on what earlier ones set in `self.{name}`, of which each worker would have its own copy"
    if _keeps_samples(project, loader):
        return "the data set keeps the samples that it has made, and each worker would keep copies of its own"
    return ""


def copied_random_state(project: Project, loader: Loader) -> str:
    """Return which random state all workers would have a copy of; empty if samples draw from none."""
    if name := drawn_state(project, loader):
        return (
            f"samples draw from {name}, of which each worker would have a copy in the same state: the workers would "
            "draw the same numbers"
        )
    if (drawing := drawing_transform(project, loader)) is not None:
        return (
            f"`{drawing.name}` draws from a random state of its own, of which each worker would have a copy in the "
            f"same state: pass a `worker_init_fn` that calls its `{drawing.seeded}` first"
        )
    return ""


def _keeps_samples(project: Project, loader: Loader) -> bool:
    """Return whether a data set keeps what it has made for a sample (``self.cache[index] = image``): in later epochs
    nothing is left to do, and the memory grows with the number of workers."""
    resolver = project.fact(Resolver)
    for source in sets_of(project, loader):
        assert isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node):
            methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
            get = methods.get("__getitem__")
            makers = reached(methods, get) if get is not None else []
            if any(keeps_results(project, NodeRef(where, method)) for method in makers):
                return True
    return False


def _of_class(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> str:
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    if (get := methods.get("__getitem__")) is None:
        return ""
    opened = {name: what for name, what in _opened(project, module, owner) if not is_given_up(owner, name)}
    states = random_states(project, module, owner)
    for method in reached(methods, get):
        for part in walk(method):
            match part:
                case ast.Call(func=ast.Name(id="next"), args=[ast.Attribute(value=ast.Name(id="self"), attr=name), *_]):
                    return (
                        f"each sample takes the next of `self.{name}`, of which each worker would have its own copy "
                        "that starts at the first"
                    )
                case ast.AugAssign() | ast.Assign() if name := counted_up(part):
                    return f"each sample changes `self.{name}`, of which each worker would have its own copy"
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()) if name in states:
                    return (
                        f"each sample draws from `self.{name}`, of which each worker would have a copy in the same "
                        "state: the workers would draw the same numbers"
                    )
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()) if name in opened:
                    return f"`self.{name}` is {opened[name]} forked workers would {_verb(opened[name])}"
    return ""


def _verb(held: str) -> str:
    return "lack" if "threads" in held else "share"


def _opened(
    project: Project, module: ModuleIndex, owner: ast.ClassDef, depth: int = _MAX_HOLDERS
) -> Iterator[tuple[str, str]]:
    """The attributes that hold files, clients and threads which exist before the workers do, and what workers would
    share."""
    resolver = project.fact(Resolver)
    for name, made in kept_attributes(owner):
        if isinstance(made, ast.Call) and matches(handles(project, "thread"), resolver.call_names(module, made)):
            yield name, "run or filled by threads of the parent process, which"
            continue
        if isinstance(made, ast.Call) and matches(handles(project, "engine"), resolver.call_names(module, made)):
            yield name, "bound to threads or a context of the parent process, which"
            continue
        if isinstance(made, ast.Call) and matches(handles(project, "file"), resolver.call_names(module, made)):
            yield name, "an open file, which"
        elif (
            any(
                isinstance(ref.node, ast.Call)
                and matches(handles(project, "client"), resolver.call_names(ref.module, ref.node))
                for ref in resolver.points_to(module, made)
            )
            or _is_client(owner, name, made)
            or any(_holds_client(project, *held, depth - 1) for held in resolver.classes_of(module, made))
        ):
            yield name, _SHARED


def _holds_client(project: Project, module: ModuleIndex, owner: ast.ClassDef, depth: int) -> bool:
    """Return whether an object of a class has a client."""
    return depth >= 0 and any(what == _SHARED for _, what in _opened(project, module, owner, depth))


def _is_client(owner: ast.ClassDef, name: str, made: ast.expr) -> bool:
    """Return whether an attribute is what the caller of the constructor passes under the name of a client, and the
    class calls methods of it: ``self.s3 = s3`` and ``self.s3.get_object(...)``."""
    if not isinstance(made, ast.Name) or not _CLIENT.search(made.id):
        return False
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr not in _OF_CONTAINERS
        and ast.unparse(part.func.value) == f"self.{name}"
        for part in walk(owner)
    )
