"""Loops after which each step would wait in any case, so that nothing is gained by reading a value there."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.fix import Declined
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import LOOPS
from gpulint_fixers.loading.loader_lifetimes import has_one_step
from gpulint_fixers.waits.step_tests import micro_batches, steps_over_batches, trains_inside


def gains_nothing_later(project: Project, found: HostWait) -> Declined | None:
    """Return why nothing is gained where a value is read after the loop instead of in it; None if something is."""
    loop = found.context.loop
    if has_one_step(project, loop.module, loop.node):
        return Declined("one batch holds all samples: the step of each epoch is read in any case")
    if not found.context.calls and isinstance(loop.node, LOOPS) and _is_part_of_step(project, found):
        return Declined("the loop is a part of each step, which would wait after it")
    if trains_inside(found.module, found.statement, loop.node):
        return Declined("each round trains for several steps, beside which one wait costs little")
    return None


def _is_part_of_step(project: Project, found: HostWait) -> bool:
    """Return whether the loop over micro-batches is in each step of another one, perhaps in a function that it
    calls."""
    if micro_batches(found.module, found.context.loop.node):
        return True
    function = found.module.function(found.context.loop.node)
    if function is None or isinstance(function, ast.Lambda) or steps_over_batches(found.context.loop.node):
        return False
    return any(
        project.fact(LoopContexts).in_role(site.module, site.node, Role.STEP) is not None
        for site in project.fact(Resolver).call_sites(found.module, function)
    )
