"""Backward passes whose gradients are thrown away: norms, importances and scores of samples, statistics over a loader
by which weights are shrunk or pruned later."""

from __future__ import annotations

import ast
import re
from itertools import takewhile
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.callers import callers
from gpulint.training.loop_iterables import is_loader_name, unwrap_iterable
from gpulint.values.counter_names import counts_epochs
from gpulint.workspace.module_index import (
    FUNCTIONS,
    LOOPS,
    FunctionNode,
    LoopNode,
    ModuleIndex,
    NodeRef,
    dotted,
    last_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.project import Project

_MAY_UPDATE = regex.compile(
    r"step|update|optim|(^|_)(sgd|adam)|apply|minimize|train|fit|learn|callback|hook|sync|reduce|push|send|put|scatter"
    r"|aggregat|accum|strategy|engine|scaler|(^|_)(on|after|before)_",
)
"""Parts of the names of what may update weights, or hand gradients to what does."""
_KEPT_WEIGHTS = frozenset("zero_ requires_grad_ detach_ clip_grad_norm_ clip_grad_value_ clamp_".split())
"""Operations in place that move no weights."""
_COUNTS = regex.compile(
    r"bar$|progress|meter|metric|stat|tracker|logger|history|results?$|scores?$|counter", re.IGNORECASE
)
"""Names of what counts or shows, and updates no weights: ``pbar.update(1)``."""
_WAITS = frozenset({"synchronize"})
_MEASURES = frozenset("norm abs pow square mean sum item max zero_".split())
"""What makes numbers of gradients by which no weights are moved."""
_CALLS = 3
"""Calls through which the loops are looked for that call a function."""


def discards_gradients(project: Project, module: ModuleIndex, backward: ast.Call) -> bool:
    """Return whether the function around ``loss.backward()`` sets the gradients back in each round of a loop, or right
    after it has read them, and does nothing that may update weights; or whether its pass over a loader only gathers
    gradients, and is called outside of the epochs."""
    function = module.function(backward)
    if function is None:
        return False
    loops = [up for up in takewhile(lambda up: up is not function, module.syntax.ancestors(backward)) if _is_loop(up)]
    set_back = any(map(_sets_back, loops)) if loops else _is_set_back_after(function, backward)
    if set_back and not _may_update(module, function) and not _moves_weights(function):
        return True
    return bool(loops) and _only_gathers(project, module, function, loops[-1])


def _is_loop(node: ast.AST) -> bool:
    return isinstance(node, LOOPS)


def _only_gathers(project: Project, module: ModuleIndex, function: FunctionNode, loop: ast.AST) -> bool:
    """Return whether a pass over a loader moves no weights, whatever its function does with the gradients later (scores
    to prune by), and is no part of an epoch."""
    if not isinstance(loop, ast.For) or not is_loader_name(last_name(unwrap_iterable(loop.iter))):
        return False
    if not any(map(_zeroes, walk(function))) or not any(map(_is_gradient, walk(function))):
        return False
    if _may_update(module, loop) or _moves_weights(loop):
        return False
    return _is_called_outside_of_epochs(project, module, function)


def _sets_back(loop: ast.AST) -> bool:
    return any(map(_zeroes, walk(loop)))


def _zeroes(part: ast.AST) -> bool:
    """``model.zero_grad()``, ``p.grad = None``, ``p.grad.zero_()``"""
    match part:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="grad"), attr="zero_")):
            return True
        case ast.Assign(targets=[ast.Attribute(attr="grad")], value=ast.Constant(value=None)):
            return True
    return isinstance(part, ast.Call) and last_name(part.func) == "zero_grad"


def _is_set_back_after(function: FunctionNode, backward: ast.Call) -> bool:
    """Return whether a function sets the gradients back after it has taken and read them, in its own block."""
    after = [part for part in function.body if part.lineno > backward.lineno]
    measured = {part for call in walk(function) if _measures(call) for part in walk(call)}
    read = [part for part in walk(function) if isinstance(part, ast.Attribute) and part.attr == "grad"]
    kept = any(isinstance(part.ctx, ast.Load) and part not in measured for part in read)
    return not kept and any(_zeroes(part) for statement in after for part in walk(statement))


def _measures(call: ast.AST) -> bool:
    """``p.grad.norm()``, ``torch.abs(p.grad)``, ``p.grad.zero_()``"""
    return isinstance(call, ast.Call) and last_name(call.func) in _MEASURES


@query
def _is_called_outside_of_epochs(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a function is called, and no loop that may count epochs or draws batches is around the calls."""
    sites = [at.ref for at in callers(project, NodeRef(module, function.body[0]), _CALLS)][1:]
    around = [up for site in sites for up in _loops_around(site)]
    return bool(sites) and not any(isinstance(loop, ast.While) or _may_train(loop) for loop in around)


def _loops_around(site: NodeRef) -> Iterator[LoopNode]:
    for up in site.module.syntax.ancestors(site.node):
        if isinstance(up, FUNCTIONS):
            return
        if isinstance(up, LOOPS):
            yield up


def _may_train(loop: ast.For | ast.AsyncFor) -> bool:
    names = [part.id for part in walk(loop.target) if isinstance(part, ast.Name)]
    return any(map(counts_epochs, names)) or is_loader_name(last_name(unwrap_iterable(loop.iter)))


@query
def _may_update(_module: ModuleIndex, where: FunctionNode | ast.For) -> bool:
    """Return whether a function or loop calls what may update weights by its name, or hands something out meanwhile."""
    return any(isinstance(part, ast.Yield | ast.YieldFrom | ast.Await) or _calls_update(part) for part in walk(where))


def _calls_update(part: ast.AST) -> bool:
    match part:
        case ast.Call(func=ast.Attribute(attr="train"), args=[] | [ast.Constant()]):
            return False  # the mode of a model
        case ast.Call(func=ast.Attribute(value=owner, attr="update")) if _COUNTS.search(last_name(owner)):
            return False
        case ast.Call(func=func):
            return last_name(func) not in _WAITS and bool(_MAY_UPDATE.search(last_name(func).lower()))
    return False


def _moves_weights(where: ast.AST) -> bool:
    """Return whether a function or loop changes tensors in place, or makes weights of their gradients."""
    for part in walk(where):
        match part:
            case ast.Call(func=func):
                name = last_name(func)
                if name.endswith("_") and not name.endswith("__") and name not in _KEPT_WEIGHTS:
                    return True
            case ast.AugAssign(target=target, op=op, value=value):
                # ``p -= rate * p.grad``, ``p.data += ...``; ``total += p.grad.norm()`` adds up.
                of_data = dotted(target).endswith(".data") and not _adds_squares(op, value)
                if of_data or (isinstance(op, ast.Sub) and _reads_gradient(value)):
                    return True
            case ast.Assign(targets=[ast.Attribute(attr="data" | "weight" | "bias"), *_]):
                return True
            case ast.Assign(targets=[target, *_], value=ast.BinOp(left=left, op=ast.Sub(), right=right)):
                # ``w = w - rate * w.grad``
                if ast.unparse(target) == ast.unparse(left) and _reads_gradient(right):
                    return True
    return False


def _adds_squares(op: ast.operator, value: ast.expr) -> bool:
    """Return whether squares or sizes of gradients add up: ``importance[name].data += p.grad.data ** 2 / count``."""
    sized = {inner for part in walk(value) if _measures(part) or _is_power(part) for inner in walk(part)}
    gradients = [part for part in walk(value) if _is_gradient(part)]
    return isinstance(op, ast.Add) and bool(gradients) and sized.issuperset(gradients)


def _is_power(part: ast.AST) -> bool:
    return isinstance(part, ast.BinOp) and isinstance(part.op, ast.Pow)


def _reads_gradient(value: ast.expr) -> bool:
    return any(map(_is_gradient, walk(value)))


def _is_gradient(part: ast.AST) -> bool:
    return isinstance(part, ast.Attribute) and part.attr == "grad"
