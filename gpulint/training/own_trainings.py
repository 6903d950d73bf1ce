"""Loops of which each round is a training of its own, with an optimizer of its own, or takes several steps."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, FunctionNode, LoopNode, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_COUNTED = ("range", "trange")
MANY = 0
"""Stands for an unknown number of steps, more than one."""


@query
def steps_of_round(project: Project, module: ModuleIndex, loop: ast.AST) -> int:
    """Return how many steps of an optimizer a round of a loop takes, where an inner loop takes all of them on the same
    batch: an optimizer that is made for each batch (the inversion of images), or a number that is written out. One if
    nothing says more, as where an inner loop takes the parts of a batch."""
    if not isinstance(loop, ast.For | ast.AsyncFor | ast.While):
        return 1
    loops = project.fact(LoopContexts)
    inner = [part for part in loops.inner_loops(module, loop) if part is not loop]
    steps = [part for part in walk(loop) if isinstance(part, ast.Call) and _is_step(project, module, part)]
    if not steps:
        return MANY if any(_runs_training(project, module, call) for call in loops.calls_in(module, loop)) else 1
    holding = [one for one in inner if any(part in steps for part in walk(one) if isinstance(part, ast.Call))]
    if not {*steps} <= {part for one in holding for part in walk(one)}:
        return 1
    anew = starts_anew(project, module, loop)
    counts = [_rounds(project, module, one, anew) for one in holding]
    known = [count for count in counts if count != MANY]
    if not anew and MANY in counts:
        return 1
    return max(1, sum(known)) if MANY not in counts else MANY


def _is_step(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    return last_name(call.func) in ("step", "backward") and project.fact(LoopContexts).is_training_step(module, call)


def _runs_training(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call runs a function that makes an optimizer and takes its steps in a counted loop."""
    return any(
        isinstance(helper.node, FUNCTIONS)
        and starts_anew(project, helper.module, helper.node)
        and all(
            _rounds(project, helper.module, one, anew=True) != 1
            for one in project.fact(LoopContexts).inner_loops(helper.module, helper.node)
            if any(isinstance(part, ast.Call) and _is_step(project, helper.module, part) for part in walk(one))
        )
        for helper in project.fact(Resolver).callees(module, call)
    )


def _rounds(project: Project, module: ModuleIndex, loop: LoopNode, anew: bool) -> int:
    """Return how often a loop runs on the same batch, one if it may take the parts of it."""
    match loop:
        case ast.While():
            return MANY
        case ast.For(target=ast.Name(id=count), iter=source):
            call = source.args[0] if isinstance(source, ast.Call) and last_name(source.func) == "tqdm" else source
        case _:
            return 1
    if not isinstance(call, ast.Call) or last_name(call.func) not in _COUNTED or len(call.args) != 1:
        return 1
    if not anew and _picks(loop, count):
        return 1
    known = project.fact(Constants).of(module, call.args[0])
    whole = [value for value in known.constants if isinstance(value, int)]
    return max(whole) if known.complete and whole and len(whole) == len(known.constants) else MANY


def _picks(loop: ast.For, count: str) -> bool:
    """Return whether a loop takes something by its count, such as a part of a batch."""
    return any(
        isinstance(name, ast.Name) and name.id == count
        for part in walk(loop)
        if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Load)
        for name in walk(part.slice)
    )


def is_own_training(project: Project, loop: NodeRef) -> bool:
    """Return whether each round of a loop makes an optimizer and takes many steps with it."""
    module, node = loop.module, loop.node
    if not isinstance(node, LOOPS) or (steps := steps_of_round(project, module, node)) == 1:
        return False
    return steps == MANY or starts_anew(project, module, node)


@query
def starts_anew(project: Project, module: ModuleIndex, loop: LoopNode | FunctionNode) -> bool:
    """Return whether each round (or call) makes the optimizer with which a loop in it takes all the steps, so that a
    round is a training of its own (the inversion of one image)."""
    resolver, loops = project.fact(Resolver), project.fact(LoopContexts)
    inner = [part for part in loops.inner_loops(module, loop) if part is not loop]
    calls = [part for part in walk(loop) if isinstance(part, ast.Call)] if inner else []
    makes = [one for one in calls if any(name.startswith("torch.optim.") for name in resolver.call_names(module, one))]
    if not makes:
        return False
    below = {part for one in inner for part in walk(one)}
    steps = [one for one in calls if last_name(one.func) in ("step", "backward")]
    return bool(steps) and below.isdisjoint(makes) and below.issuperset(steps)
