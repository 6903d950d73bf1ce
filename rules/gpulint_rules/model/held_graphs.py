"""Totals and lists of an evaluation that keep the whole graph of each batch: no ``backward`` frees anything of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import cyclic
from gpulint.records import dataclass
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.training.inference_loops import InferenceLoop
from gpulint.training.later_losses import parts_with_graph
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import FUNCTIONS, LoopNode, ModuleIndex, NodeRef, dotted, last_name
from gpulint_rules.model.graph_values import changes, lets_go

_LOSS = regex.compile(r"loss|criterion|cross_entropy|objective|elbo|(^|_)(nll|bce|mse|ce)(_|$)", re.IGNORECASE)
"""Names of losses, of what computes them, and of their keys in what a model returns."""
_OUTPUT = regex.compile(r"loss|logits|hidden|embed|feature|output|reconstruct", re.IGNORECASE)
"""Names of parts of what a model returns that are computed with gradients."""
_PASSING = frozenset(
    "mean sum clone float half double to cuda cpu squeeze unsqueeze view reshape flatten contiguous sqrt exp abs pow "
    "sigmoid softmax log_softmax values".split()
)
"""Methods whose result still carries the graph."""
_FUNCTIONS = frozenset("stack cat mean sum sqrt exp abs sigmoid softmax log_softmax relu".split())
_SWITCHES = frozenset("no_grad inference_mode set_grad_enabled".split())
_MAX_RETURNS = 4


@dataclass(frozen=True, slots=True)
class HeldGraph:
    """What keeps the graphs of all batches, and the value that it gets of each."""

    name: str
    value: ast.expr


def held_in(project: Project, found: InferenceLoop) -> HeldGraph | None:
    """Return what certainly keeps the graph of what the model computes in each round of a loop:
    ``losses.append(loss)``, ``total += loss``, a meter of the tree that adds it up."""
    if found.loop is None:
        return None
    module, flow = found.module, _Flow(project, found.module, found.model)
    for statement in _statements(found.loop):
        for name, value in flow.taken(statement):
            if name and _lasts(project, module, found.loop, statement, name):
                return HeldGraph(name, value)
    return None


def _lasts(project: Project, module: ModuleIndex, outer: LoopNode, statement: ast.stmt, name: str) -> bool:
    """Return whether a statement is met in every round of the loop over the batches, and what takes its value was there
    before the loop and is not made again in it."""
    loops, guards = project.fact(LoopContexts), project.fact(Guards)
    loop = next((up for up in loops.around(module, statement) if loops.over_loader(module, up)), outer)
    inside = changes(module, loop)
    if name in inside.anew or name in inside.ended or guards.is_conditional(module, statement, loop):
        return False
    return not (guards.is_without_gradients(module, statement) or _pops(project, module, loop, name))


def _pops(project: Project, module: ModuleIndex, loop: LoopNode, name: str) -> bool:
    total = next(part for part in walk(loop) if isinstance(part, ast.Name | ast.Attribute) and dotted(part) == name)
    return not project.fact(Resolver).classes_of(module, total) and lets_go(project, module, loop, name)


def _statements(root: ast.AST) -> Iterator[ast.stmt]:
    """The statements below a node in their order, those of inner functions aside."""
    for child in ast.iter_child_nodes(root):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            continue
        if isinstance(child, ast.stmt):
            yield child
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _statements(child)


class _Flow:
    """Which names carry the graph of a model, statement by statement."""

    def __init__(self, project: Project, module: ModuleIndex, model: str) -> None:
        self._project, self._module, self._model = project, module, model
        self._names = set[str]()
        self._made = set[str]()
        """Names of what is computed of what the model returns, of which a loss is computed in turn."""

    def taken(self, statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
        """Yield what adds or appends a value with a graph in a statement, with the value, and note what it sets."""
        match statement:
            case ast.Assign(targets=[target], value=value):
                name = dotted(target)
                if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and dotted(value.left) == name != "":
                    if self.carries(value.right):
                        yield name, value.right
                        self._names.add(name)
                else:
                    self._set(target, value)
            case ast.AugAssign(op=ast.Add(), target=target, value=value) if self.carries(value):
                self._names.add(dotted(target))
                yield dotted(target), value
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="append"), args=[value])):
                if self.carries(value):
                    yield dotted(owner), value
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner)) as call):
                given = next(
                    (one for one in (*call.args, *(key.value for key in call.keywords)) if self.carries(one)), None
                )
                if given is not None and _adds_up(self._project, self._module, call, given):
                    yield dotted(owner), given

    def _set(self, target: ast.expr, value: ast.expr) -> None:
        carries, made = self.carries(value), self._is_made(value)
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        for part in parts:
            # Of several parts, some may be numbers or indices.
            if carries and (part is target or _LOSS.search(last_name(part))):
                self._names.add(dotted(part))
            else:
                self._names.discard(dotted(part))
            (self._made.add if made else self._made.discard)(dotted(part))
        self._names.discard("")
        self._made.discard("")

    def _is_made(self, value: ast.expr) -> bool:
        """Return whether an expression is computed of what the model returns, as far as that keeps its graph."""
        return any(
            dotted(part) in self._made
            or (isinstance(part, ast.Call) and dotted(part.func) in (self._model, f"{self._model}.forward"))
            for part in parts_with_graph(value)
        )

    def carries(self, value: ast.expr) -> bool:
        """Return whether an expression certainly has a graph of the model."""
        match value:
            case ast.Name() | ast.Attribute() if dotted(value) in self._names:
                return True
            case ast.Attribute(value=owner, attr=attr):
                return bool(_OUTPUT.search(attr)) and self.carries(owner)
            case ast.Subscript(value=owner, slice=ast.Constant(value=key)):
                return isinstance(key, str) and bool(_OUTPUT.search(key)) and self.carries(owner)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow(), right=right):
                return self.carries(left) or self.carries(right)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.carries(operand)
            case ast.GeneratorExp(elt=ast.Name(id=name), generators=[ast.comprehension(target=target, iter=source)]):
                return dotted(target) == name and self.carries(source)
            case ast.Call():
                return self._is_computed(value)
        return False

    def _is_computed(self, call: ast.Call) -> bool:
        if self._project.fact(Guards).is_without_gradients(self._module, call):
            return False
        if dotted(call.func) in (self._model, f"{self._model}.forward"):
            return True
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if any(dotted(one) == self._model for one in given):
            return _returns_graph(self._project, self._module, call, self._model)
        if isinstance(call.func, ast.Attribute) and call.func.attr in _PASSING and self.carries(call.func.value):
            return True
        name = last_name(call.func)
        package = dotted(call.func).rpartition(".")[0]
        if name in _FUNCTIONS and package in ("", "torch", "F", "nn.functional", "torch.nn.functional"):
            return any(map(self.carries, given))
        is_loss = _LOSS.search(name) and any(map(self._is_made, given))
        return bool(is_loss) and _keeps_graph(self._project, self._module, call)


def _keeps_graph(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether no function of the tree that a call reaches cuts the graph of the loss that it returns."""
    cuts = {*_SWITCHES, "item", "detach", "tolist", "numpy", "data"}
    return not any(
        last_name(part) in cuts
        for callee in project.fact(Resolver).callees(module, call)
        for part in walk(callee.node)
        if isinstance(part, ast.Name | ast.Attribute)
    )


@cyclic(False)
def _returns_graph(project: Project, module: ModuleIndex, call: ast.Call, model: str) -> bool:
    """Return whether a function of the tree that gets a model returns what it computes with it, with its graph."""
    callees = project.fact(Resolver).callees(module, call)
    return 0 < len(callees) <= _MAX_RETURNS and all(_computes(project, callee, call, model) for callee in callees)


def _computes(project: Project, callee: NodeRef, call: ast.Call, model: str) -> bool:
    function = callee.node
    if not isinstance(function, ast.FunctionDef):
        return False
    names = {
        part.id if isinstance(part, ast.Name) else part.attr
        for part in walk(function)
        if isinstance(part, ast.Name | ast.Attribute)
    }
    own = [one for one in parameters(function) if _is_passed(function, call, one, model)]
    if names & _SWITCHES or len(own) != 1:
        return False
    flow, returned = _Flow(project, callee.module, own[0]), list[bool]()
    for statement in _statements(function):
        for _ in flow.taken(statement):
            pass
        if isinstance(statement, ast.Return):
            returned.append(statement.value is not None and flow.carries(statement.value))
    return bool(returned) and all(returned)


def _is_passed(function: ast.FunctionDef, call: ast.Call, parameter: str, model: str) -> bool:
    given = argument_of(function, call, parameter)
    return given is not None and dotted(given) == model


def _adds_up(project: Project, module: ModuleIndex, call: ast.Call, given: ast.expr) -> bool:
    """Return whether the methods of the tree that a call reaches add what they get to an attribute, as it is."""
    callees = [one.node for one in project.fact(Resolver).callees(module, call)]
    return bool(callees) and all(
        isinstance(one, ast.FunctionDef) and _adds_parameter(one, call, given) for one in callees
    )


def _adds_parameter(method: ast.FunctionDef, call: ast.Call, given: ast.expr) -> bool:
    name = next((one for one in parameters(method) if argument_of(method, call, one) is given), "")
    sets = (part for part in walk(method) if isinstance(part, ast.Assign))
    if not name or any(dotted(target) == name for part in sets for target in part.targets):
        return False
    return any(_is_of_self(target) and _weighs(value, name) for target, value in _added(method))


def _added(method: ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    for part in method.body:
        match part:
            case ast.AugAssign(op=ast.Add(), target=target, value=value):
                yield target, value
            case ast.Assign(targets=[target], value=ast.BinOp(left=left, op=ast.Add(), right=value)):
                if dotted(left) == dotted(target):
                    yield target, value
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="append"), args=[value])):
                yield owner, value


def _is_of_self(target: ast.expr) -> bool:
    return dotted(target).startswith("self.")


def _weighs(value: ast.expr, name: str) -> bool:
    """``loss``, ``loss * count``"""
    match value:
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            return _weighs(left, name) or _weighs(right, name)
    return dotted(value) == name
