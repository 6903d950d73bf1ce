"""Totals and lists that keep what a loop adds to them longer than one of its rounds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import LoopNode, ModuleIndex, dotted
from gpulint_rules.model.graph_values import changes
from gpulint_rules.model.rounds import counts_epochs_of, counts_steps_of

_STEP = regex.compile(
    r"(^|_)(run|train|training|optimi[sz]e|update)_?(step|batch|iter|iteration)$"
    r"|^_?update(_(policy|agent|model|actor|critic|network|weights|parameters))?$"
)
"""Names of functions that take one training step, or a few on what an agent has gathered."""
_MICRO_STEPS = regex.compile(r"accum|micro_?(batch|step)|sub_?batch", re.IGNORECASE)
"""Names of the parts of one step."""


@dataclass(frozen=True, slots=True)
class RetainedGraph:
    """The part of what a statement keeps that carries the graphs: a tensor, or the expression of several; and the
    training loop."""

    module: ModuleIndex
    value: ast.expr
    loop: LoopNode


def kept_in(loop: LoopNode) -> Iterator[tuple[ast.expr, str]]:
    """(value, name of the total or list that takes it) of accumulations in the loop, not in loops inside it."""
    for node in walk(loop):
        match node:
            case ast.AugAssign(op=ast.Add(), target=target, value=value):
                yield value, dotted(target)
            case ast.Assign(targets=[target], value=ast.BinOp(left=left, op=ast.Add(), right=right)):
                if dotted(target) and dotted(target) == dotted(left):
                    yield right, dotted(target)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="append"), args=[value])):
                yield value, dotted(owner)


def _is_part_of_step(project: Project, module: ModuleIndex, loop: LoopNode) -> bool:
    """Return whether a function makes the loop's rounds within each step of a training, so that its own totals end
    with the step."""
    function = module.function(loop)
    if isinstance(loop, ast.For) and _MICRO_STEPS.search(_bound_text(module, loop.iter)):
        return True
    if function is None:
        return False
    return bool(_STEP.search(function.name)) or any(
        context.role is Role.STEP and context.loop.node is not loop and context.calls
        for context in project.fact(LoopContexts).enclosing_loops(module, loop.body[0])
    )


def _bound_text(module: ModuleIndex, source: ast.expr) -> str:
    """The text of what a loop runs over, with what its variables are bound to."""
    names = [part for part in walk(source) if isinstance(part, ast.Name)]
    bound = (binding.value for name in names for binding in module.scope(name).lookup(name.id))
    return " ".join(module.syntax.text(node) for node in (source, *bound) if node is not None)


def outlives(project: Project, module: ModuleIndex, loop: LoopNode, name: str) -> bool:
    """Return whether the total is set before all steps, and never set again or differentiated in the loop."""
    if not name:
        return False
    inside = changes(module, loop)
    if _is_part_of_step(project, module, loop):
        return False
    if name in inside.anew or name in inside.ended:
        return False
    function = module.function(loop) or module.syntax.tree
    made = [node for node in changes(module, function).made.get(name, ()) if node.lineno < loop.lineno]
    # Several steps on one batch, or on several data sets: the total of a batch lives as long as that.
    around = [*project.fact(LoopContexts).around(module, loop)]
    batches = {
        outer
        for number, outer in enumerate(around)
        if project.fact(LoopContexts).over_loader(module, outer)
        or counts_steps_of(outer)
        or any(map(counts_epochs_of, around[number + 1 :]))
    }
    return bool(made) and not any(up in batches for node in made for up in module.syntax.ancestors(node))
