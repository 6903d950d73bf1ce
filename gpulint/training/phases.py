"""Modes of a function or loop that trains or else evaluates, and which of them a place belongs to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions, exclude_each_other, known_from
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import BindingKind, FunctionNode, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_TRAINING = regex.compile(r"^\W*(is_)?train(ing|able)?\W*$", re.IGNORECASE)
_EVALUATING = regex.compile(r"^\W*(is_)?(val|valid|validation|eval|evaluate|test|predict)\W*$", re.IGNORECASE)
_EQUAL, _UNEQUAL = ast.Eq | ast.Is, ast.NotEq | ast.IsNot
_FIGURES = ("figure", "subplots", "subplot_mosaic")
"""Functions of Matplotlib that begin a figure."""
_EXPORTS = frozenset({"is_scripting", "is_tracing", "is_in_onnx_export", "is_exporting"})
"""Functions that ask whether a model is turned into a graph."""
_OPTIMIZER = regex.compile(r"(^|_)optim(izer)?s?$", re.IGNORECASE)


def only_evaluates(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether the conditions around a place keep training steps out."""
    return any(
        _says_evaluation(test, holds) or (holds and _evaluates_by_default(module, test))
        for test, holds in conditions(module, node)
    )


def belongs_to_other_phase(project: Project, loop: NodeRef, at: NodeRef) -> bool:
    """Return whether one loop trains, or else infers (``mode == "forward"``), and this is a place where it infers."""
    if at.module is not loop.module:
        return False
    steps = _steps(project, loop)
    return bool(steps) and all(exclude_each_other(loop.module, at.node, step, loop.node) for step in steps)


def draws_figure(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place belongs to a function that makes a figure, which no training does in every step."""
    function = module.function(node)
    return function is not None and _draws(project, module, function)


@query
def _draws(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    calls = [call for name in _FIGURES for call in module.calls_by_name.get(name, ())]
    resolver, loops = project.fact(Resolver), project.fact(LoopContexts)
    return any(
        module.function(call) is function
        and not any(isinstance(up, ast.If) for up in _up_to(module, call, function))
        and any(name.partition(".")[0] == "matplotlib" for name in resolver.call_names(module, call))
        for call in calls
    ) and not any(loops.is_training_step(module, call) for call in module.calls_of(function))


def _up_to(module: ModuleIndex, node: ast.AST, function: FunctionNode) -> Iterator[ast.AST]:
    """Yield what stands around a node in its function."""
    return takewhile(lambda up: up is not function, module.syntax.ancestors(node))


@query
def _steps(project: Project, loop: NodeRef) -> list[ast.Call]:
    """The training steps of a loop, of those under the same conditions one."""
    calls = project.fact(LoopContexts).calls_in(loop.module, loop.node)
    steps = (call for call in calls if project.fact(LoopContexts).is_training_step(loop.module, call))
    return list({known_from(loop.module, step): step for step in steps}.values())


def is_model_variant_branch(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """``if isinstance(sampler, LossAware)`` of a class of the tree: which kind it is was chosen elsewhere."""
    for test, holds in conditions(module, node):
        if holds and isinstance(test, ast.Call) and last_name(test.func) == "isinstance" and len(test.args) == 2:
            kinds = project.fact(Resolver).points_to(module, test.args[1])
            if any(isinstance(kind.node, ast.ClassDef) for kind in kinds):
                return True
    return False


def _says_evaluation(test: ast.expr, holds: bool) -> bool:
    """Return whether the condition keeps training steps out (``if stage != Stage.TRAIN``, ``if not self.training``,
    ``if optimizer is None``)."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    if isinstance(test, ast.BoolOp):
        decided = any if isinstance(test.op, ast.And) is holds else all
        return decided(_says_evaluation(part, holds) for part in test.values)
    match test:
        case ast.Compare(left=name, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=None)]):
            return holds and bool(_OPTIMIZER.search(last_name(name)))
        case ast.Compare(left=name, ops=[ast.IsNot() | ast.NotEq()], comparators=[ast.Constant(value=None)]):
            return not holds and bool(_OPTIMIZER.search(last_name(name)))
    if isinstance(test, ast.Call):
        return (holds and last_name(test.func) in _EXPORTS) or (not holds and last_name(test.func) == "is_grad_enabled")
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], _EQUAL | _UNEQUAL):
        holds = holds is isinstance(test.ops[0], _EQUAL)
        other = test.comparators[0]
        words = str(other.value) if isinstance(other, ast.Constant) else last_name(other)
    else:
        words = last_name(test) if isinstance(test, ast.Name | ast.Attribute) else ""
    if _TRAINING.search(words) or _OPTIMIZER.search(words):
        return not holds
    return holds and bool(_EVALUATING.search(words))


def _evaluates_by_default(module: ModuleIndex, test: ast.expr) -> bool:
    """``optimizer is None or keep``, where ``keep`` is a parameter that is false unless a caller sets it."""
    if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.Or):
        return False
    told = [_says_evaluation(part, True) for part in test.values]
    return any(told) and all(known or _is_off(module, part) for part, known in zip(test.values, told, strict=True))


def _is_off(module: ModuleIndex, test: ast.expr) -> bool:
    bindings = module.scope(test).lookup(test.id) if isinstance(test, ast.Name) else ()
    return bool(bindings) and all(
        binding.kind is BindingKind.PARAMETER and isinstance(binding.value, ast.Constant) and not binding.value.value
        for binding in bindings
    )
