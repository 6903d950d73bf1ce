"""Random states that are made before the workers start and that samples draw from: those of a data set, of an object
that it keeps, of a module. Each worker gets a copy, and all draw the same numbers.

PyTorch seeds only the global random states of a worker.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import loader_argument
from gpulint.workload.dataset_work import sets_of
from gpulint.workload.global_draws import run_for_samples
from gpulint.workload.gpu_samples import kept_attributes
from gpulint.workspace.module_index import dotted

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import ModuleIndex, NodeRef

_OWN_RANDOM = frozenset(
    {"random.Random", "numpy.random.RandomState", "numpy.random.default_rng", "numpy.random.Generator"}
    | {"torch.Generator", "torch._C.Generator"}
)
_MAKERS = (b"random.Random(", b"RandomState(", b"default_rng(", b"Generator(", b"Random(", b"self.R.")
_RANDOMIZABLE = regex.compile(r"monai\.(?:\w+\.)*Rand\w+")
_SEEDS = frozenset({"seed", "manual_seed", "set_state", "setstate", "get_worker_info"})
"""What gives each sample, or each worker, numbers of its own."""


def random_states(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> set[str]:
    """Return the attributes that are made as random states of the object."""
    return {name for name, made in kept_attributes(owner) if _is_state(project, module, made)}


def _is_state(project: Project, module: ModuleIndex, made: ast.AST) -> bool:
    """``np.random.default_rng(seed)``, ``torch.Generator().manual_seed(seed)``"""
    match made:
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr="manual_seed")):
            return _is_state(project, module, inner)
        case ast.Call():
            return bool(project.fact(Resolver).call_names(module, made) & _OWN_RANDOM)
    return False


@query
def drawn_state(project: Project, loader: Loader) -> str:
    """Return the random state that samples draw from and nothing seeds in a worker, with the class that has it if that
    is not the data set (```self.rng` of `Renderer```); empty if there is none."""
    if not loader_argument(project, loader, "worker_init_fn").is_absent:
        return ""
    if not any(project.python_files_with(made) for made in _MAKERS):
        return ""
    makers = run_for_samples(project, loader)
    parts = [(maker, part) for maker in makers for part in walk(maker.node)]
    if any(isinstance(part, ast.Attribute) and part.attr in _SEEDS for _, part in parts):
        return ""
    own, inside = _classes(project, loader), {maker.node for maker in makers}
    names = project.fact(Resolver).call_names(loader.module, loader.node)
    of_monai = any(name.startswith("monai.") for name in names)
    for maker, call in parts:
        if not isinstance(call, ast.Call):
            continue
        for state in _used(call):
            if _is_made_before(project, maker.module, state, inside) or (
                not of_monai and _is_of_monai(project, maker.module, state)
            ):
                owner = maker.module.class_of(maker.node)
                is_kept = isinstance(state, ast.Attribute) and owner is not None and owner not in own
                return f"`{dotted(state)}`" + (f" of `{owner.name}`" if is_kept and owner is not None else "")
    return ""


def _classes(project: Project, loader: Loader) -> set[ast.ClassDef]:
    resolver = project.fact(Resolver)
    return {
        base
        for source in sets_of(project, loader)
        if isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node)
        for _, base in resolver.mro(where, owner)
    }


def _used(call: ast.Call) -> Iterator[ast.Name | ast.Attribute]:
    """Yield what a call may draw from: ``self.rng.integers(9)``, ``torch.rand(3, generator=self.rng)``."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if isinstance(call.func, ast.Attribute):
        given.insert(0, call.func.value)
    yield from (one for one in given if isinstance(one, ast.Name | ast.Attribute) and dotted(one))


def _is_made_before(project: Project, module: ModuleIndex, state: ast.expr, inside: set[ast.AST]) -> bool:
    """Return whether a value is a random state, made by none of the functions that samples are made with."""
    made: tuple[NodeRef, ...] = project.fact(Resolver).points_to(module, state)
    states = [one for one in made if not one.path and _is_state(project, one.module, one.node)]
    return bool(states) and not any(one.module.function(one.node) in inside for one in made)


def _is_of_monai(project: Project, module: ModuleIndex, state: ast.expr) -> bool:
    """Return whether a value is ``self.R`` of a class that MONAI gives a ``RandomState``, which only the data loader of
    MONAI seeds in its workers."""
    owner = module.class_of(state)
    if owner is None or not (isinstance(state, ast.Attribute) and dotted(state) == "self.R"):
        return False
    names = project.fact(Resolver).base_names(module, owner)
    return any(_RANDOMIZABLE.fullmatch(name) for name in names)
