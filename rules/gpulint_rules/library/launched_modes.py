"""Whether a program trains with the options that its jobs start it with: ``--mode eval`` leaves the training out."""

from __future__ import annotations

import ast

from gpulint.project import Project
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex

MAX_CALLS = 3
"""Most calls between a program's start and its training whose conditions are looked at."""


def may_train(module: ModuleIndex, project: Project) -> bool:
    """Return whether some training step of a program's main module is reached, or it leaves training to others."""
    contexts = project.fact(LoopContexts)
    loops = [loop for loop in module.loops if contexts.role(module, loop) is Role.STEP]
    return not loops or any(_is_reached(module, loop, project) for loop in loops)


def _is_reached(module: ModuleIndex, node: ast.AST, project: Project, depth: int = MAX_CALLS) -> bool:
    """Return whether a place may run: no condition around it, or around all calls of its function, fails."""
    if project.fact(Guards).is_off_by_default(module, node) or any(
        _is_other_mode(module, part, wanted, project)
        for test, holds in conditions(module, node)
        for part, wanted in parts_of(test, holds)
    ):
        return False
    function = module.function(node)
    sites = project.fact(Resolver).first_sites(module, function) if function is not None and depth else ()
    return not sites or any(_is_reached(site.module, site.node, project, depth - 1) for site in sites)


def _is_other_mode(module: ModuleIndex, test: ast.expr, wanted: bool, project: Project) -> bool:
    """``args.mode == "train"`` where the option is known, and is something else."""
    match test:
        case ast.Compare(
            left=asked, ops=[ast.Eq() | ast.NotEq() as compares], comparators=[ast.Constant(value=str(one))]
        ):
            listed = [one]
        case ast.Compare(
            left=asked,
            ops=[ast.In() | ast.NotIn() as compares],
            comparators=[ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts)],
        ) if all(isinstance(part, ast.Constant) for part in parts):
            listed = [str(part.value) for part in parts if isinstance(part, ast.Constant)]
        case _:
            return False
    holds = wanted is isinstance(compares, ast.Eq | ast.In)
    return (
        project.fact(Constants)
        .of(module, asked)
        .every(lambda value: isinstance(value, str) and (value in listed) is not holds)
    )
