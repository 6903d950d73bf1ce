"""Samples that are made with random states which are global to a process: those of NumPy and of Python."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.placement.host_to_device import HostToDevice
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workload.changed_parts import makers_of
from gpulint.workload.main_guards import route_to
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

NUMPY, PYTHON = "numpy.random.", "random."
_NO_DRAWS = frozenset({"seed", "default_rng", "getstate", "get_state", "setstate", "set_state"})
_OTHERS = ("numpy.", "random.", "tensorflow.")
_HELPERS = 2
"""Calls through which functions that samples are made with are followed."""


@query
def global_draw(project: Project, loader: Loader, library: str) -> str:
    """Return the name of a function of NumPy or of Python with which samples are drawn at random; empty if there is
    none, or samples set the seed themselves."""
    return next(iter(_draws(project, loader, library).values()), "")


@query
def drawing_set(project: Project, loader: Loader, library: str) -> str:
    """Return the class of a data set whose samples are drawn with a function of NumPy or Python where the loader may be
    given others whose samples are not; empty where all are, or none."""
    resolver, sources = project.fact(Resolver), project.fact(HostToDevice).sources(loader)
    drawing = {maker.module.class_of(maker.node) for maker in _draws(project, loader, library)}
    sets = dict.fromkeys(
        owner
        for source in sources
        if isinstance(source.node, ast.expr)
        for owner in resolver.classes_of(source.module, source.node)
    )
    own = {owner.name: {base for _, base in resolver.mro(module, owner)} & drawing for module, owner in sets}
    return next(filter(own.get, own), "") if None not in drawing and not all(own.values()) else ""


@query
def _draws(project: Project, loader: Loader, library: str) -> dict[NodeRef, str]:
    """The functions that draw what samples are made with, and what from; none if one of them sets the seed."""
    found: dict[NodeRef, str] = {}
    for maker in run_for_samples(project, loader):
        for call in walk(maker.node):
            if not isinstance(call, ast.Call):
                continue
            for name in sorted(project.fact(Resolver).call_names(maker.module, call)):
                last = name.rpartition(".")[2]
                if not name.startswith(library) or not last.islower():
                    continue
                if last == "seed":
                    return {}
                if last not in _NO_DRAWS:
                    found.setdefault(maker, name)
    return found


@query
def run_for_samples(project: Project, loader: Loader) -> tuple[NodeRef, ...]:
    """Return the functions that samples are made with, and those of the tree that they call."""
    todo, found = [(one, _HELPERS) for one in makers_of(project, loader)], dict[ast.AST, NodeRef]()
    while todo:
        maker, depth = todo.pop()
        if maker.node in found:
            continue
        found[maker.node] = maker
        for call in walk(maker.node) if depth else ():
            if isinstance(call, ast.Call):
                callees = project.fact(Resolver).callees(maker.module, call)
                todo += [(one, depth - 1) for one in callees if isinstance(one.node, FUNCTIONS)]
    return tuple(found.values())


def only_draw_seeded(project: Project, loader: Loader) -> str:
    """Return the function with which samples are drawn at random where a program that makes the loader seeds what that
    draws from, but not PyTorch, from whose random state workers take their seeds; empty if there is none."""
    starts = [start.module for start in route_to(project, loader.call).starts]
    for library in (NUMPY, PYTHON):
        if name := global_draw(project, loader, library):
            for program in dict.fromkeys(starts or [loader.module]):
                seeds = _seeds(project, program)
                if f"{library}seed" in seeds and "torch" not in seeds:
                    return name
    return ""


@query
def _seeds(project: Project, program: ModuleIndex) -> frozenset[str]:
    """Return what a program seeds: ``random.seed``, ``numpy.random.seed``, and ``torch`` where it, or a library, may
    seed PyTorch."""
    modules = (project.module_at(path) for path in (program.path, *sorted(project.imported(program.path))))
    found = set[str]()
    for module in (one for one in modules if one is not None):
        for call in module.calls_where(_is_of_seeds):
            names = project.fact(Resolver).call_names(module, call)
            if names & {f"{PYTHON}seed", f"{NUMPY}seed"}:
                found |= names
            elif not any(name.startswith(_OTHERS) or name.endswith(".seed") for name in names) and not project.fact(
                Resolver
            ).callees(module, call):
                found.add("torch")
    return frozenset(found)


def _is_of_seeds(name: str) -> bool:
    """``manual_seed``, ``set_seed``, ``seed_everything``, ``set_rng_state``"""
    return "seed" in name.lower() or name == "set_rng_state"
