"""What the tensors that each round of a loop makes on the host cost together."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpulint.impact import Cost
from gpulint.project import Project
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContext
from gpulint.workspace.module_index import ModuleIndex
from gpulint_rules.data.branch_chances import uncertain
from gpulint_rules.data.called_waits import called_wait, place_of_wait
from gpulint_rules.data.exclusive_branches import reached_with
from gpulint_rules.data.wait_counts import all_rounds, copies, inner_loops
from gpulint_rules.data.wait_groups import BESIDE, IN_BRANCH


def cost(
    project: Project,
    module: ModuleIndex,
    node: ast.expr,
    beside: Sequence[tuple[ast.expr, LoopContext]],
    context: LoopContext,
) -> Cost:
    """Return the cost of a tensor, as one of those of its loop in the same file. Those that a round may pass by count
    half, and those that stand in for what is empty not at all."""
    loop, unsure = context.loop.node, uncertain(module, beside)
    nodes = reached_with(module, node, context, beside) or [node]
    sure = [node for node in nodes if node not in unsure]
    inner = sum(bool(inner_loops(module, node, loop)) for node in nodes)
    most = "up to " if len(sure) < len(nodes) else ""
    count = f"{most}{len(nodes)} tensors are" if len(nodes) > 1 else "a tensor is"
    said = f"{count} made on the host and copied"
    if inner:
        which = f", {inner} of them" if inner < len(nodes) else ""
        said += f"{which} in an inner loop"
    amount = (copies(module, nodes, loop) + (copies(module, sure, loop) if sure else 0)) / 2
    if not inner and (wait := _wait_beside(project, module, node, context)):
        amount *= BESIDE
        said += f", {wait} waits in any case"
    weight = all_rounds(module, node, loop)
    in_branch = project.fact(Guards).is_conditional(module, node, loop)
    return Cost("host-tensor", amount, basis=said, own=weight * (IN_BRANCH if in_branch else 1))


def _wait_beside(project: Project, module: ModuleIndex, node: ast.expr, context: LoopContext) -> str:
    """Return what waits for a value in each run of the function of a place, or in each round of its loop, before which
    the GPU has no work ahead that a small copy could delay; empty if nothing is seen."""
    function = module.function(node)
    block = function if context.calls and function is not None else context.loop.node
    if block is not function and context.loop.module is not module:
        return ""
    return place_of_wait(project, module, called_wait(project, module, block, node, frozenset(), True))
