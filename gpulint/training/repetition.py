"""Which work is done again and again while a model trains, as opposed to once before, after or on the way out."""

from __future__ import annotations

import ast
from itertools import islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.exits import ends_program
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.argument_binding import CallbackCall
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContext, LoopContexts
from gpulint.training.loop_roles import Role, is_epoch_loop
from gpulint.training.own_trainings import starts_anew
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, FunctionNode, LoopNode, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_WHOLE = regex.compile(r"(^|[_(, ])(fold|seed|trial)(_?(i|idx|id|num|no|number))?($|[), ])")
"""What loops over whole trainings count."""
_DEFERRING = frozenset(
    (
        "submit Thread Process Timer apply_async map_async run_in_executor start_new_thread to_thread create_task "
        "put put_nowait add_done_callback register signal"
    ).split()
)


def training_contexts(project: Project, module: ModuleIndex, node: ast.AST) -> list[LoopContext]:
    """The training step and epoch loops that run ``node`` repeatedly, as ``repeated_contexts`` says."""
    return [one for one in repeated_contexts(project, module, node) if one.role is not Role.EVAL]


def repeated_contexts(project: Project, module: ModuleIndex, node: ast.AST) -> list[LoopContext]:
    """The training step, epoch and evaluation loops that run ``node`` repeatedly.

    Left out are contexts in which the node runs once: on the way out of the loop (before ``break`` or in an exception
    handler), after the last epoch, or in a loop around whole trainings (folds, seeds, trials); or only when something
    went wrong (a loss that is no number).
    """
    guards = project.fact(Guards)
    if _leaving(module, node) or guards.is_error_path(module, node):
        return []
    return [
        context
        for context in project.fact(LoopContexts).enclosing_loops(module, node)
        if context.role is not Role.OTHER
        and not any(
            _leaving(call.module, call.node) or _defers(call) or guards.is_error_path(call.module, call.node)
            for call in context.calls
        )
        and not _around_trainings(project, module, node, context)
    ]


def _leaving(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether the innermost loop ends right after ``node``, or something has failed."""
    inner, returns = node, False
    for up in module.syntax.ancestors(node):
        if isinstance(up, ast.ExceptHandler):
            return True
        if isinstance(up, ast.If | ast.With):
            place = module.syntax.place(inner)
            block = up.body if place is not None and place[0] == "body" else getattr(up, "orelse", [])
            last = block[-1] if block else None
            if isinstance(last, ast.Break | ast.Raise) or (last is not None and ends_program(last)):
                return True
            returns = returns or isinstance(last, ast.Return)
        if isinstance(up, LOOPS) and returns:
            return True
        if isinstance(up, (*FUNCTIONS, *LOOPS)):
            break
        inner = up
    return any(holds and _is_last(test) for test, holds in conditions(module, node))


def _defers(call: NodeRef) -> bool:
    """Return whether the call passes a function on to run elsewhere or later (``executor.submit(save, state)``)."""
    if not isinstance(call.node, CallbackCall):
        return False
    receiver = call.module.syntax.parents[call.node.func]
    if isinstance(receiver, ast.keyword):
        receiver = call.module.syntax.parents[receiver]
    return isinstance(receiver, ast.Call) and last_name(receiver.func) in _DEFERRING


def _is_last(test: ast.expr) -> bool:
    """``epoch == epochs - 1``, ``step + 1 == total``: true once."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_is_last(value) for value in values)
        case ast.Compare(left=ast.Name() | ast.Attribute(), ops=[ast.Eq()], comparators=[ast.BinOp(op=ast.Sub())]):
            return True
        case ast.Compare(left=ast.BinOp(op=ast.Add(), right=ast.Constant(value=1)), ops=[ast.Eq()]):
            return True
    return False


def _around_trainings(project: Project, module: ModuleIndex, node: ast.AST, context: LoopContext) -> bool:
    """Return whether the context is a loop over whole trainings, each with its own epochs, so that ``node`` comes after
    them."""
    loop = context.loop.node
    if not isinstance(loop, LOOPS) or is_epoch_loop(loop):
        return False
    if isinstance(loop, ast.For) and _WHOLE.search(ast.unparse(loop.target)):
        return True
    if starts_anew(project, context.loop.module, loop):
        return True
    places = [*context.calls, NodeRef(module, node)]
    if context.role is Role.STEP and any(_is_in_whole_training(project, place, loop) for place in places):
        return True
    return any(_beside_epochs(project, place, loop) for place in places)


def _is_in_whole_training(project: Project, place: NodeRef, outer: LoopNode) -> bool:
    """Return whether a place is in a function, called in a loop, that is a training of its own."""
    function = place.module.function(place.node)
    return (
        isinstance(function, FUNCTIONS)
        and outer not in place.module.syntax.ancestors(place.node)
        and starts_anew(project, place.module, function)
    )


def _beside_epochs(project: Project, place: NodeRef, outer: ast.AST) -> bool:
    """Return whether an epoch loop is in the place's function (below ``outer`` if that is there) without holding the
    place."""
    module = place.module
    around = set(module.syntax.ancestors(place.node))
    for loop in _epoch_loops(project, module, module.function(place.node)):
        if loop not in around and (outer not in around or outer in module.syntax.ancestors(loop)):
            return True
    if outer not in around:
        return _follows_training(project, place)
    return any(call is not place.node for call in _whole_trainings(project, module, outer))


def _follows_training(project: Project, place: NodeRef) -> bool:
    """Return whether the place's function has trained a whole model before (``trainer.train(epochs)``)."""
    module, function = place.module, place.module.function(place.node)
    line = getattr(place.node, "lineno", 0)
    return function is not None and any(
        call.lineno < line and (call.end_lineno or line) < line and _trains_whole(project, module, call)
        for call in module.calls_of(function)
    )


@query
def _epoch_loops(project: Project, module: ModuleIndex, function: FunctionNode | None) -> list[LoopNode]:
    """The epoch loops in a function, or outside of all functions."""
    loops = _named_for_epochs(module).get(function, ())
    return [loop for loop in loops if project.fact(LoopContexts).role(module, loop) is Role.EPOCH]


@query
def _named_for_epochs(module: ModuleIndex) -> dict[FunctionNode | None, list[LoopNode]]:
    """Loops that count epochs by their names, by the functions around them."""
    table: dict[FunctionNode | None, list[LoopNode]] = {}
    for loop in module.loops:
        if is_epoch_loop(loop):
            table.setdefault(module.function(loop), []).append(loop)
    return table


@query
def _whole_trainings(project: Project, module: ModuleIndex, outer: ast.AST) -> list[ast.Call]:
    """Two calls in a loop, if there are so many, that train from the first epoch to the last."""
    calls = (part for part in walk(outer) if isinstance(part, ast.Call))
    return list(islice((call for call in calls if _trains_whole(project, module, call)), 2))


def _trains_whole(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the call runs a function that has its own epoch loop, or makes the optimizer of its steps."""
    return any(
        starts_anew(project, helper.module, helper.node)
        or any(
            is_epoch_loop(loop) and project.fact(LoopContexts).role(helper.module, loop) is Role.EPOCH
            for loop in project.fact(LoopContexts).inner_loops(helper.module, helper.node)
        )
        for helper in project.fact(Resolver).callees(module, call)
        if isinstance(helper.node, FUNCTIONS)
    )
