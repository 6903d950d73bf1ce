"""Which programs lead to a place: those that train, or only others, such as a separate preparation of the data."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import ModuleIndex, last_name, source_text

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_CALLS = 6
"""Most calls between a place and the program that leads to it."""
_OF_DATA = regex.compile(r"(Generator|Scaler|Encoder|Binarizer|Vectorizer|Imputer|Tokenizer|Transformer|PCA|KMeans)$")
"""Classes that are fitted to data and train nothing on a GPU."""
_TRAINS = ("fit", "fit_generator", "Trainer", "train")


@query
def only_programs_without_training_call(
    project: Project, module: ModuleIndex, node: ast.AST, calls: int = MAX_CALLS
) -> bool:
    """Return whether all that leads to a place are programs that train nothing: a preparation of the data, or the
    self-test of a module."""
    if any(holds and "__main__" in source_text(module, test) for test, holds in conditions(module, node)):
        return not trains_or_fits(project, module)
    function = module.function(node)
    if function is None:
        return not trains_or_fits(project, module) and not any(project.fact(GpuPrograms).users(module.path))
    if module.class_of(function) is not None or not calls:
        return False  # objects are also made where nobody sees their class
    found = project.fact(Resolver).first_sites(module, function)
    sites = [site for site in found if site.module.function(site.node) is not function]
    return bool(sites) and all(
        only_programs_without_training_call(project, site.module, site.node, calls - 1) for site in sites
    )


@query
def trains_or_fits(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module takes training steps, or has a library take them."""
    return project.fact(LoopContexts).has_training_step(module) or any(
        not _fits_data(project, module, call) for name in _TRAINS for call in module.calls_by_name.get(name, ())
    )


def _fits_data(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """``datagen.fit(images)``: statistics of the data, not weights."""
    made = project.fact(Resolver).points_to(module, call.func.value) if isinstance(call.func, ast.Attribute) else ()
    return any(isinstance(one.node, ast.Call) and _OF_DATA.search(last_name(one.node.func)) for one in made)
