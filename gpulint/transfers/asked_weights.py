"""Whether the callers of a function that makes a network ask for its pretrained weights."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import default_of, keyword_value
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, NodeRef, source_text

if TYPE_CHECKING:
    from gpulint.project import Project

_FLAGS = ("pretrained", "weights", "encoder_weights")


def nobody_asks(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether all calls of the function around a call pass a ``pretrained`` that is false. What a module that
    others import does for a try when it is started itself does not count."""
    function, name = module.function(call), _flag(call)
    if function is None or not name or name not in parameters(function):
        return False
    sites = [site for site in project.fact(Resolver).call_sites(module, function) if not _tries(project, module, site)]
    return bool(sites) and all(_declines(project, module, function, site, name) for site in sites)


def _flag(call: ast.Call) -> str:
    """Return the variable that says whether a call loads weights (``weights=X if pretrained else None``)."""
    given = next((value for name in _FLAGS if (value := keyword_value(call, name)) is not None), None)
    match given:
        case ast.Name(id=name) | ast.IfExp(test=ast.Name(id=name), orelse=ast.Constant(value=None)):
            return name
    return ""


def _declines(
    project: Project, module: ModuleIndex, function: ast.FunctionDef | ast.AsyncFunctionDef, site: NodeRef, name: str
) -> bool:
    assert isinstance(site.node, ast.Call)
    given, home = argument_of(function, site.node, name), site.module
    if given is None:
        given, home = default_of(function.args, name), module
    if given is None or isinstance(given, ast.Starred):
        return False
    return project.fact(Constants).of(home, given).every(lambda value: not value)


def _tries(project: Project, module: ModuleIndex, site: NodeRef) -> bool:
    """Return whether a call only runs when a module that others import is started itself, which no job does, and which
    trains nothing."""
    return (
        site.module is module
        and any(holds and "__main__" in source_text(module, test) for test, holds in conditions(module, site.node))
        and not project.fact(LoopContexts).has_training_step(module)
        and any(project.fact(GpuPrograms).users(module.path))
        and not any(start.start.program == module.path for start in project.fact(JobIndex).launches_of(module.path))
    )
