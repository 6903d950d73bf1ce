"""Data sets that mark what they have given out, and choose the next sample by these marks (``if self.used[index]``):
workers would mark copies of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.semantic.points_to import Resolver
from gpulint.workload.dataset_work import sets_of
from gpulint.workload.gpu_samples import reached

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_CHANGES = frozenset({"zero_", "fill_", "fill", "clear", "add", "discard", "remove"})
"""Methods of tensors, arrays, lists and sets that change them in place."""


def remembered(project: Project, loader: Loader) -> str:
    """Return the attribute of a data set whose elements samples set and test, perhaps under another name (``flags =
    self.flags[kind]``); empty if there is none."""
    resolver = project.fact(Resolver)
    for source in sets_of(project, loader):
        assert isinstance(source.node, ast.expr)
        for _, owner in resolver.classes_of(source.module, source.node):
            if name := _remembered(owner):
                return name
    return ""


def _remembered(owner: ast.ClassDef) -> str:
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    get = methods.get("__getitem__")
    makers = reached(methods, get) if get is not None else []
    marked, tested = dict[str, None](), set[str]()
    for maker in makers:
        names = _names(maker)
        marked |= dict.fromkeys(_marked(maker, names))
        tested |= set(_tested(maker, names))
    return next((name for name in marked if name in tested), "")


def _names(maker: ast.FunctionDef) -> dict[str, str]:
    """Return the variables of a method that are an attribute of the data set, or an element of one."""
    found = dict[str, str]()
    for part in walk(maker):
        match part:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.For(target=ast.Name(id=name), iter=value):
                if held := _attribute(value, found):
                    found[name] = held
    return found


def _attribute(value: ast.expr, names: dict[str, str]) -> str:
    """Return the attribute that an expression is, or is an element of: ``self.flags[kind][index]``."""
    while isinstance(value, ast.Subscript):
        value = value.value
    match value:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
        case ast.Name(id=name):
            return names.get(name, "")
    return ""


def _marked(maker: ast.FunctionDef, names: dict[str, str]) -> Iterator[str]:
    """Yield the attributes whose elements a method sets to constants, counts up or changes in place."""
    for part in walk(maker):
        match part:
            case (
                ast.Assign(targets=[ast.Subscript(value=held)], value=ast.Constant(value=bool() | int() | float()))
                | ast.AugAssign(target=ast.Subscript(value=held))
            ):
                yield _attribute(held, names)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=held, attr=change))) if change in _CHANGES:
                yield _attribute(held, names)


def _tested(maker: ast.FunctionDef, names: dict[str, str]) -> Iterator[str]:
    """Yield the attributes by whose elements a method decides, other than by whether there are any."""
    for part in walk(maker):
        if not isinstance(part, ast.If | ast.IfExp | ast.While):
            continue
        looks = {
            inner
            for one in walk(part.test)
            if isinstance(one, ast.Compare) and isinstance(one.ops[0], ast.In | ast.NotIn | ast.Is | ast.IsNot)
            for inner in walk(one)
        }
        asked = part.test.operand if isinstance(part.test, ast.UnaryOp) else part.test  # ``if not used:``
        for one in (asked, *walk(part.test)):
            is_element = isinstance(one, ast.Subscript) or (one is asked and isinstance(one, ast.Name))
            if is_element and isinstance(one, ast.expr) and one not in looks and (name := _attribute(one, names)):
                yield name
