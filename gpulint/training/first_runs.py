"""Statements that run once: on first use, until a value is there, or until they set the flag that they ask for."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.semantic.path_conditions import parts_of
from gpulint.training.filled_tables import adds_key
from gpulint.training.missing_attributes import gives_missing
from gpulint.values.bound_parts import bound_part
from gpulint.values.counter_names import is_counter
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, BindingKind, ModuleIndex, dotted, last_name

_KEEPS = frozenset({"functools.cache", "cache", "lru_cache"})
"""Decorators that keep what a function has returned."""
_MAKES = regex.compile(r"(^|_)(build|init|create|setup|make|initialize)(_|$)")
_DONE = regex.compile(
    r"(^|_)(skip\w*|resum\w*|done|finished|completed)(_|$)"
    r"|^start(ing)?(_(global_)?(step|iter|iteration|epoch|batch|idx|index)s?)?$"
)
"""Names of the number of rounds that a run before has done."""


def skips_done(module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    """Return whether a test that has to fail only passes by the rounds of a loop that a run before has done: ``if step
    < start_step: continue``."""
    branch = module.syntax.parents.get(test)
    match test:
        case ast.Compare(left=ast.Name() as counter, ops=[ast.Lt() | ast.LtE()], comparators=[first]):
            ends = isinstance(branch, ast.If) and isinstance(branch.body[-1], ast.Continue) and not branch.orelse
            return ends and not holds and is_counter(counter) and _DONE.search(last_name(first)) is not None
    return False


def runs_once(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether ``node`` runs on first use only (``if self._optimizer is None: self._build()``), or in the first
    round of a loop that gets there (``if not shown: ...; shown = True``)."""
    if gives_missing(module, node):
        return True
    inner = node
    for up in module.syntax.ancestors(node):
        if _left_before(module, inner):
            return True
        if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            return False
        if isinstance(up, ast.If) and _is_none(up.test) and not up.orelse and _makes(up.body, _asked(up.test)):
            return True
        if isinstance(up, ast.If) and (_fills(module, up) or _deletes_condition(up)):
            return True
        if isinstance(up, ast.If) and inner in up.body and _sets_flag(module, up):
            return True
        if isinstance(up, ast.IfExp) and inner is up.body and _goes_on(module, up):
            return True
        inner = up
    return False


def _goes_on(module: ModuleIndex, choice: ast.IfExp) -> bool:
    """``last = x[0].item() if self.last is None else self.last``, where the same function sets ``self.last`` to
    something else than None."""
    name, owner = _asked(choice.test) if _is_none(choice.test) else "", module.class_of(choice)
    if owner is None or not name or dotted(choice.orelse) != f"self.{name}":
        return False
    function = module.function(choice)
    return any(
        module.function(one.node) is function and not (isinstance(one.value, ast.Constant) and one.value.value is None)
        for one in module.attributes.get((owner, name), [])
    )


def fills_once(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether ``node`` runs only until something has a value, which its block gives and nothing takes away: an
    attribute (``if self.mask is None: self.mask = ...``), perhaps one that grows (``or self.mask.size(0) < n``), one of
    what outlives the rounds (``if not hasattr(weight, "buffer"): weight.buffer = ...``), a variable outside of the
    loop, a key of a table (``if key not in table: table[key] = ...``)."""
    if gives_missing(module, node, kept=True):
        return True
    inner = node
    for up in module.syntax.ancestors(node):
        if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            return _looks_first(module, up, node)
        if isinstance(up, ast.If) and inner in up.body and (_fills_attribute(module, up) or _fills(module, up)):
            return True
        if isinstance(up, ast.If) and inner in up.body and _fills_shared(module, up):
            return True
        block = _block_of(up, inner) if isinstance(up, ast.If) else None
        if isinstance(up, ast.If) and block is not None and adds_key(module, up.test, block is up.body, block):
            return True
        inner = up
    return False


def _block_of(branch: ast.If, inner: ast.AST) -> list[ast.stmt] | None:
    return next((block for block in (branch.body, branch.orelse) if inner in block), None)


def _fills_shared(module: ModuleIndex, branch: ast.If) -> bool:
    """``if Warp.center is None: Warp.center = ...`` of a class, the same of a global variable, and ``made =
    table.get(key)``, ``if made is None: ...; table[key] = made``"""
    match branch.test:
        case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=None)]):
            pass
        case _:
            return False
    stored = [
        part
        for statement in branch.body
        for part in walk(statement)
        if isinstance(part, ast.Name | ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store)
    ]
    match left:
        case ast.Attribute(value=ast.Name(id=name)):
            return name != "self" and ast.unparse(left) in map(ast.unparse, stored)
        case ast.Name(id=name):
            if name in module.scope(left).outer:
                return any(isinstance(part, ast.Name) and part.id == name for part in stored)
            tables = {
                ast.unparse(one.value.func.value)
                for one in module.scope(left).lookup(name)
                if isinstance(one.value, ast.Call)
                and isinstance(one.value.func, ast.Attribute)
                and one.value.func.attr == "get"
            }
            return any(isinstance(part, ast.Subscript) and ast.unparse(part.value) in tables for part in stored)
    return False


def _looks_first(module: ModuleIndex, function: ast.AST, node: ast.AST) -> bool:
    """Return whether a decorator keeps the results of the function around ``node``, or the function returns what a
    table has for a key, and adds to it else (``if key in table: return table[key]``)."""
    if not isinstance(function, FUNCTIONS):
        return False
    if any(_KEEPS & {*_names(decorator)} for decorator in function.decorator_list):
        return True
    inner = next((up for up in function.body if up is node or up in module.syntax.ancestors(node)), None)
    before = function.body[: function.body.index(inner)] if inner is not None else []
    return any(
        isinstance(statement, ast.If)
        and isinstance(statement.body[-1], ast.Return)
        and not statement.orelse
        and adds_key(module, statement.test, False, function.body)
        for statement in before
    )


def _names(decorator: ast.expr) -> tuple[str, ...]:
    """``functools.lru_cache`` and ``lru_cache`` of ``@functools.lru_cache(maxsize=8)``"""
    func = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (dotted(func), last_name(func))


def _makes(body: list[ast.stmt], missing: str) -> bool:
    """Return whether statements set an attribute, or call something like ``build_optimizer``, or like ``set_model`` if
    a ``_model`` is missing."""
    setters = {f"{verb}_{missing.strip('_')}" for verb in ("set", "load", "get", "register")}
    return any(
        (isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store))
        or (
            isinstance(part, ast.Call)
            and (bool(_MAKES.search(name := last_name(part.func))) or name.strip("_") in setters)
        )
        for statement in body
        for part in walk(statement)
    )


def _deletes_condition(branch: ast.If) -> bool:
    """``if hasattr(self, "first"): ...; del self.first``."""
    asked = {
        f"{ast.unparse(call.args[0])}.{call.args[1].value!s}"
        for call in walk(branch.test)
        if isinstance(call, ast.Call)
        and last_name(call.func) == "hasattr"
        and len(call.args) == 2
        and isinstance(call.args[1], ast.Constant)
    }
    deleted = (target for part in branch.body if isinstance(part, ast.Delete) for target in part.targets)
    return bool(asked) and any(ast.unparse(target) in asked for target in deleted)


def _fills(module: ModuleIndex, branch: ast.If) -> bool:
    """``if first is None: first = measure()`` of a name that no loop around sets anew, perhaps with another test (``if
    first is None and hasattr(model, "first")``)."""
    names = (name for part, holds in parts_of(branch.test, True) if (name := _missing_name(part, holds)) is not None)
    return any(_is_filled(module, branch, name) for name in names)


def _missing_name(part: ast.expr, holds: bool) -> str | None:
    match part:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]) if holds:
            return name
    return None


def _is_filled(module: ModuleIndex, branch: ast.If, name: str) -> bool:
    outer = next((up for up in module.syntax.ancestors(branch) if isinstance(up, LOOPS)), None)
    bindings = module.scope(branch.test).lookup(name)
    inside = [one for one in bindings if outer is not None and outer in module.syntax.ancestors(one.node)]
    return bool(inside) and all(
        branch in module.syntax.ancestors(one.node) and not _is_constant(one.value, None) for one in inside
    )


def _left_before(module: ModuleIndex, inner: ast.AST) -> bool:
    """``if self.shown: return`` in front of ``self.shown = True`` in the block of a statement."""
    place = module.syntax.place(inner)
    block = getattr(module.syntax.parents[inner], place[0]) if place is not None else []
    return any(
        isinstance(statement, ast.If)
        and not statement.orelse
        and isinstance(statement.body[-1], ast.Return | ast.Continue)
        and any(
            _sets(module, block[number + 1 :], part, not wanted) for part, wanted in parts_of(statement.test, False)
        )
        for number, statement in enumerate(block[: place[1]] if place is not None else [])
    )


def _sets_flag(module: ModuleIndex, branch: ast.If) -> bool:
    """``if not shown: ...; shown = True`` of a flag that nothing else sets, other than in front of the loop."""
    return any(_sets(module, [branch], part, not wanted) for part, wanted in parts_of(branch.test, True))


def _sets(module: ModuleIndex, block: Sequence[ast.stmt], flag: ast.expr, then: bool) -> bool:
    """Return whether a block that a flag leads to sets it, and only what runs before it sets it back."""
    match flag:
        case ast.Name(id=name):
            loop = next((up for up in module.syntax.ancestors(flag) if isinstance(up, LOOPS)), None)
            stores = [
                (one.value, loop is not None and loop in module.syntax.ancestors(one.node), one.node)
                for one in module.scope(flag).lookup(name)
                if one.kind is BindingKind.ASSIGN
            ]
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            owner = module.class_of(flag)
            stores = [
                (bound_part(one), not _is_in_init(module, one.node), one.node)
                for one in (module.attributes.get((owner, name), []) if owner is not None else [])
            ]
        case _:
            return False
    within = {node: _runs_in(module, block, node) for _, _, node in stores}
    inside = [value for value, _, node in stores if within[node]]
    others = [(value, repeated) for value, repeated, node in stores if not within[node]]
    return (
        bool(inside)
        and bool(others)
        and all(_is_constant(value, then) for value in inside)
        and all(_is_constant(value, then) or (_is_constant(value, not then) and not again) for value, again in others)
    )


def _runs_in(module: ModuleIndex, block: Sequence[ast.stmt], store: ast.AST) -> bool:
    """Return whether a store is in a block, or at the top of a method that the block calls (``self.begin(x)``)."""
    around = [store, *module.syntax.ancestors(store)]
    if not set(block).isdisjoint(around):
        return True
    method = module.function(store)
    if method is None or method.name == "__init__" or not set(method.body) & set(around[:2]):
        return False
    return any(
        isinstance(call.func, ast.Attribute)
        and last_name(call.func.value) == "self"
        and not set(block).isdisjoint(module.syntax.ancestors(call))
        for call in module.calls_by_name.get(method.name, ())
    )


def _is_constant(value: ast.AST | None, wanted: bool | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is wanted


def _is_in_init(module: ModuleIndex, node: ast.AST) -> bool:
    function = module.function(node)
    return function is not None and function.name == "__init__"


def _fills_attribute(module: ModuleIndex, branch: ast.If) -> bool:
    """``if self.mask is None: self.mask = ...``, ``if not hasattr(self, "mask"): ...`` of an attribute that only
    ``__init__`` sets to None."""
    name = _missing(branch.test)
    owner = module.class_of(branch) if name else None
    stores = module.attributes.get((owner, name), []) if owner is not None else []
    emptied = [
        module.function(one.node)
        for one in stores
        if one.value is None or (isinstance(one.value, ast.Constant) and one.value.value is None)
    ]
    return any(one.node in branch.body for one in stores) and all(
        function is not None and function.name == "__init__" for function in emptied
    )


def _missing(test: ast.expr) -> str:
    """``mask`` of ``self.mask is None``, of ``not hasattr(self, "mask")``, and of both with ``or self.mask.size(0) <
    n``: what is made anew where more is needed."""
    match test:
        case ast.Compare(left=ast.Attribute(value=ast.Name(id="self"), attr=name)) if _is_none(test):
            return name
        case ast.UnaryOp(
            op=ast.Not(), operand=ast.Call(func=ast.Name(id="hasattr"), args=[self, ast.Constant(value=name)])
        ):
            return str(name) if last_name(self) == "self" else ""
        case ast.BoolOp(op=ast.Or(), values=[first, *others]) if name := _missing(first):
            return name if all(_is_too_small(other, name) for other in others) else ""
    return ""


def _is_too_small(test: ast.expr, name: str) -> bool:
    """``self.mask.size(0) < n``, ``n > self.length``, ``self.mask.size(0) != n``"""
    match test:
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.NotEq()], comparators=[_]):
            return f"self.{name}" in ast.unparse(left)
        case ast.Compare(ops=[ast.Gt() | ast.GtE()], comparators=[right]):
            return f"self.{name}" in ast.unparse(right)
    return False


def _asked(test: ast.expr) -> str:
    """``thing`` of ``self.thing is None``"""
    return last_name(test.left) if isinstance(test, ast.Compare) else ""


def _is_none(test: ast.expr) -> bool:
    """``self.thing is None``."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Attribute)
        and isinstance(test.ops[0], ast.Is)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value is None
    )
