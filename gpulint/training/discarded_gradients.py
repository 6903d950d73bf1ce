"""Backward passes over a loader whose gradients each round throws away: norms, importances and scores of samples."""

from __future__ import annotations

import ast
from itertools import takewhile

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import LOOPS, FunctionNode, ModuleIndex, dotted, last_name

_MAY_UPDATE = regex.compile(
    r"step|update|optimi[sz]e|apply|minimize|train|fit|learn|callback|hook|sync|reduce|push|send|put|scatter|aggregat"
    r"|accum|strategy|engine|scaler|(^|_)(on|after|before)_",
)
"""Parts of the names of what may update weights, or hand gradients to what does."""
_KEPT_WEIGHTS = frozenset("zero_ requires_grad_ detach_ clip_grad_norm_ clip_grad_value_ clamp_".split())
"""Operations in place that move no weights."""


def discards_gradients(module: ModuleIndex, backward: ast.Call) -> bool:
    """Return whether a loop of the function around ``loss.backward()`` sets the gradients back in each round, and the
    function does nothing that may update weights."""
    function = module.function(backward)
    if function is None or _may_update(module, function):
        return False
    around = takewhile(lambda up: up is not function, module.syntax.ancestors(backward))
    return any(isinstance(up, LOOPS) and _sets_back(up) for up in around)


def _sets_back(loop: ast.AST) -> bool:
    """``model.zero_grad()``"""
    return any(isinstance(part, ast.Call) and last_name(part.func) == "zero_grad" for part in walk(loop))


@query
def _may_update(_module: ModuleIndex, function: FunctionNode) -> bool:
    for part in walk(function):
        match part:
            case ast.Yield() | ast.YieldFrom() | ast.Await():
                return True
            case ast.Call(func=ast.Attribute(attr="train"), args=[] | [ast.Constant()]):
                continue  # the mode of a model
            case ast.Call(func=func):
                name = last_name(func)
                if _MAY_UPDATE.search(name.lower()) or (name.endswith("_") and name not in _KEPT_WEIGHTS):
                    return True
            case ast.AugAssign(target=target, op=op, value=value):
                # ``p -= rate * p.grad``, ``p.data += ...``; ``total += p.grad.norm()`` adds up.
                if dotted(target).endswith(".data") or (isinstance(op, ast.Sub) and _reads_gradient(value)):
                    return True
            case ast.Assign(targets=[ast.Attribute(attr="data" | "weight" | "bias"), *_]):
                return True
    return False


def _reads_gradient(value: ast.expr) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr == "grad" for part in walk(value))
