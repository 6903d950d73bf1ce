"""Calls that raise an error as they pass a value of a plain type to a parameter of which the function needs more: it
reads an attribute or an item that no text, number, list or path has, calls it, iterates over it, or adds a text."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import with_defaults
from gpulint.documents.python import walk
from gpulint.query import cyclic, query
from gpulint.semantic.argument_binding import CallbackCall, argument_of, parameters
from gpulint.semantic.failing_calls import constructor_of, imported_as, is_only
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.value_types import is_text, type_of
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, Binding, BindingKind, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import FunctionNode, ModuleIndex

_NO_FAILURE: ast.expr | None = None
_HAVE_NO_ITEMS = (int, float, bool, complex, type(None), set)
_HAVE_NO_ROUNDS = (int, float, bool, complex, type(None))
_PLACES = (str, bytes, list, tuple)
"""Types whose items have numbers, not names."""
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_MAYBE = (
    *(*FUNCTIONS, ast.Lambda, ast.ClassDef, ast.Try, ast.TryStar, ast.Match, ast.GeneratorExp, ast.Assert),
    *(ast.ListComp, ast.SetComp, ast.DictComp),
)
WORKS = regex.compile(
    r"^(?!(?:train|test|valid|val|eval)[a-z]*_(?:transform|augment))(?:.*_)?"
    r"(main|train\w*|fit\w*|run\w*|test\w*|eval\w*|valid\w*|epochs?|steps?|learn\w*|launch\w*|spawn|start|optimi[sz]e"
    r"|infer\w*|predict\w*|generate|extract\w*|loop|process\w*|solve|forward|finetune|pretrain\w*|distill|warmup)(_|$)",
    re.IGNORECASE,
)
"""Names of calls that may do all of a program's work, unlike those that make transforms for it."""
_TRAINERS = regex.compile(r"train|learn|run|agent|engine|solver|self|policy|algo|experiment", re.IGNORECASE)
"""Names of what ``train()`` makes train, not what it prepares for a training."""
_CATCHERS = frozenset({"suppress", "raises", "assertRaises", "catch"})


@query
def fails_within(project: Project, module: ModuleIndex, call: ast.Call) -> ast.expr | None:
    """Return what raises an error in the one function or constructor of the tree that a call reaches, as the call
    passes no object to it: ``args.lr`` in ``def train(args)``, of ``train("voc")``; None if nothing does."""
    if isinstance(call, CallbackCall) or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    if any(keyword.arg is None for keyword in call.keywords):
        return None
    found = [_fails_in(project, module, call, taker) for taker in _takers(project, module, call.func)]
    return found[0] if found and None not in found else None


def _takers(project: Project, module: ModuleIndex, func: ast.expr) -> list[NodeRef]:
    """The one function or class that a call reaches, or both of ``Photos if rgb else Scans``; empty if unknown."""
    if not _is_plain(module, func):
        return []
    named = [func]
    if isinstance(func, ast.Name):
        match module.scope(func).lookup(func.id)[0]:
            case Binding(kind=BindingKind.ASSIGN, value=ast.IfExp(body=ast.Name() as one, orelse=ast.Name() as other)):
                named = [one, other]
    found = [_taker(project, module, one) for one in named]
    return [one for one in found if one is not None] if None not in found else []


def _taker(project: Project, module: ModuleIndex, func: ast.expr) -> NodeRef | None:
    found = project.fact(Resolver).points_to(module, func)
    if len(found) != 1 or found[0].path:
        return None
    name = func.value if isinstance(func, ast.Attribute) else func
    bindings = module.scope(name).lookup(name.id) if isinstance(name, ast.Name) else []
    home = imported_as(project, module, bindings[0]) if len(bindings) == 1 else ""
    return found[0] if is_only(project, found[0], home) else None


def _fails_in(project: Project, module: ModuleIndex, call: ast.Call, taker: NodeRef) -> ast.expr | None:
    made, where = taker.node, taker.module
    function = constructor_of(project, taker) if isinstance(made, ast.ClassDef) else made
    if not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return None
    given = _given(project, module, function, call)
    return _failing(project, where, function, given) if given and not _yields(project, where, function) else None


def _is_plain(module: ModuleIndex, func: ast.expr) -> bool:
    """``train(...)``, ``utils.train(...)``"""
    name = func.value if isinstance(func, ast.Attribute) else func
    bindings = module.scope(name).lookup(name.id) if isinstance(name, ast.Name) else ()
    return len(bindings) == 1 and (name is func or bindings[0].kind is BindingKind.IMPORT)


@query
def _yields(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    return any(isinstance(part, ast.Yield | ast.YieldFrom) for part in walk(function))


def _given(
    project: Project, caller: ModuleIndex, function: FunctionNode, call: ast.Call
) -> tuple[tuple[str, type], ...]:
    """The parameters that a call gives a value of a plain type, by itself or by their defaults, with that type."""
    defaults = {argument.arg: default for argument, default in with_defaults(function.args)}
    found = []
    for name in sorted(parameters(function)):
        passed = argument_of(function, call, name)
        kind = type_of(caller, passed) if passed is not None else type_of(None, defaults.get(name))
        if kind is not None:
            found.append((name, kind))
    return tuple(found)


def _is_given(module: ModuleIndex, function: FunctionNode, use: ast.Name) -> bool:
    """Return whether a parameter still has the value that the call gave it: it is set nowhere, or below the use."""
    for part in walk(function):
        if isinstance(part, ast.Global | ast.Nonlocal) and use.id in part.names:
            return False
        if isinstance(part, ast.Name) and part.id == use.id and not isinstance(part.ctx, ast.Load):
            statement = module.syntax.parents.get(part)
            inside = isinstance(statement, ast.Assign) and statement in module.syntax.ancestors(use)
            if part.lineno <= use.lineno and not inside:
                return False
    return True


@cyclic(_NO_FAILURE)
def _failing(
    project: Project, module: ModuleIndex, function: ast.FunctionDef, given: tuple[tuple[str, type], ...]
) -> ast.expr | None:
    """Return the first use of a parameter of a function that its value does not have, which each call gets to."""
    kinds = dict(given)
    names = (part for part in walk(function) if isinstance(part, ast.Name) and part.id in kinds)
    uses = (part for part in names if _is_given(module, function, part))
    found = [up for part in uses if (up := _misused(project, module, part, kinds)) is not None]
    return min((part for part in found if _always(module, part, function)), key=lambda one: one.lineno, default=None)


def _misused(project: Project, module: ModuleIndex, name: ast.Name, kinds: dict[str, type]) -> ast.expr | None:
    kind = kinds[name.id]
    match parent := module.syntax.parents.get(name):
        case ast.Attribute(ctx=ast.Load(), attr=attribute):
            return parent if not hasattr(kind, attribute) and (kind is not Path or hasattr(str, attribute)) else None
        case ast.Attribute():
            return parent
        case ast.Subscript(value=value, slice=key) if value is name:
            named = isinstance(key, ast.Constant) and isinstance(key.value, str) and issubclass(kind, _PLACES)
            return parent if named or issubclass(kind, _HAVE_NO_ITEMS) else None
        case ast.Call(func=func) if func is name:
            return parent
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return parent if kind is not str and is_text(right if left is name else left) else None
        case ast.For(iter=drawn) if drawn is name:
            return name if issubclass(kind, _HAVE_NO_ROUNDS) else None
        case ast.Call():
            return parent if _hands_on(project, module, parent, kinds) else None
        case ast.keyword() if isinstance(call := module.syntax.parents.get(parent), ast.Call):
            return call if _hands_on(project, module, call, kinds) else None
    return None


def _hands_on(project: Project, module: ModuleIndex, call: ast.Call, kinds: dict[str, type]) -> bool:
    """Return whether a function of the tree that gets the parameters of another one fails with them."""
    if not isinstance(call.func, ast.Name) or not _is_plain(module, call.func):
        return False
    found = _taker(project, module, call.func)
    if found is None:
        return False
    where, function = found.module, found.node
    if not isinstance(function, ast.FunctionDef) or function.decorator_list or _yields(project, where, function):
        return False
    own = set(_given(project, module, function, call))
    for name in parameters(function):
        passed = argument_of(function, call, name)
        if isinstance(passed, ast.Name) and passed.id in kinds:
            own.add((name, kinds[passed.id]))
    ordered = sorted(own, key=lambda one: (one[0], one[1].__name__))
    return _failing(project, where, function, tuple(ordered)) is not None


def _always(module: ModuleIndex, node: ast.expr, function: ast.FunctionDef) -> bool:
    """Return whether each call of a function gets to a node, or raises another error, and nothing catches it."""
    below: ast.AST = node
    for up in module.syntax.ancestors(node):
        if up is function:
            break
        if isinstance(up, _MAYBE) or (isinstance(up, LOOPS) and not _is_first(up, below)):
            return False
        if isinstance(up, ast.With | ast.AsyncWith) and any(map(_catches, up.items)):
            return False
        below = up
    exits = (part for part in walk(function) if isinstance(part, _ENDS) and part.lineno < node.lineno)
    if below not in function.body or any(not isinstance(one, ast.Raise) for one in exits):
        return False
    return not works_before(module, node, function) and all(
        _else_fails(module, test) for test, _ in conditions(module, node, function)
    )


def works_before(module: ModuleIndex, node: ast.AST, function: FunctionNode, step: ast.AST | None = None) -> bool:
    """Return whether a function may have done all of its work before it gets to a node, at which it fails, other than
    as a part of the first round of a loop."""
    around, line = {node, *module.syntax.ancestors(node)}, getattr(node, "lineno", 0)
    if step is not None:
        around.update(part for part in walk(step) if not (isinstance(part, LOOPS) and takes_steps(part)))
    before = (part for part in walk(function) if part not in around and getattr(part, "lineno", line) < line)
    return any(map(_works, before))


def takes_steps(loop: ast.AST) -> bool:
    """Return whether a loop has a backward pass in it."""
    return any(isinstance(one, ast.Attribute) and one.attr == "backward" for one in walk(loop))


def _works(part: ast.AST) -> bool:
    match part:
        case ast.Call(func=ast.Attribute(attr="train" | "eval", value=model), args=[]) if not _TRAINERS.search(
            last_name(model)
        ):
            return False  # a mode of a model
    return isinstance(part, LOOPS) or (isinstance(part, ast.Call) and bool(WORKS.search(last_name(part.func))))


def _is_first(loop: ast.AST, part: ast.AST) -> bool:
    return part is (loop.iter if isinstance(loop, ast.For) else getattr(loop, "test", None))


def _catches(item: ast.withitem) -> bool:
    return isinstance(item.context_expr, ast.Call) and last_name(item.context_expr.func) in _CATCHERS


def _else_fails(module: ModuleIndex, test: ast.expr) -> bool:
    """Return whether one of the branches of a test does nothing but raise an error."""
    statement = module.syntax.parents.get(test)
    return isinstance(statement, ast.If) and any(_raises(block) for block in (statement.body, statement.orelse))


def _raises(block: list[ast.stmt]) -> bool:
    match block:
        case [ast.If(body=body, orelse=[_, *_] as rest)]:
            return _raises(body) and _raises(rest)
        case [*before, ast.Raise()]:
            return all(isinstance(one, ast.Expr | ast.Assign) for one in before)
    return False
