"""Branches that only inputs above a limit take: ``if frames.shape[1] > self.max_frames: frames = frames.cpu()``."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.reaching_definitions import reaching
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import BindingKind, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_LIMIT = regex.compile(r"(^|_)(max|maximum|limit|threshold|thresh|cap|budget)(_|$)|_(len|length|size)$", re.IGNORECASE)
"""Names of what inputs are compared with."""
_SIZES = frozenset({"len", "size", "numel", "nelement"})
MIN_LIMIT = 32
"""Least number that is a limit; less only tells whether there is anything, or several."""


def is_for_large_input(subject: Subject) -> bool:
    """Return whether a place only runs for inputs that are larger than a limit, which says how much memory they may
    take: whether any is cannot be known."""
    module, node = subject.module, subject.node
    if module is None or node is None:
        return False
    for test, holds in conditions(module, node):
        compared = _comparison(module, test) if holds else None
        if compared is not None and _is_above_limit(subject.project, module, compared):
            return True
    return False


def _comparison(module: ModuleIndex, test: ast.expr) -> ast.Compare | None:
    """The comparison that a test is, by itself or by the one name that holds its result: ``self.long = t > limit``."""
    values: list[ast.expr | None] = [test]
    if isinstance(test, ast.Name):
        bindings = reaching(module, module.scope(test).lookup(test.id), test)
        values = [one.value if one.kind is BindingKind.ASSIGN and not one.path else None for one in bindings]
    elif isinstance(test, ast.Attribute):
        owner = module.class_of(test)
        stored = (
            module.attributes.get((owner, test.attr), [])
            if owner is not None and last_name(test.value) == "self"
            else []
        )
        values = [None if one.path else one.value for one in stored]
    if len(values) != 1:
        return None
    made = values[0].test if isinstance(values[0], ast.IfExp) else values[0]
    return made if isinstance(made, ast.Compare) else None


def _is_above_limit(project: Project, module: ModuleIndex, compared: ast.Compare) -> bool:
    match compared:
        case ast.Compare(left=left, ops=[ast.Gt() | ast.GtE()], comparators=[right]):
            size, limit = left, right
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE()], comparators=[right]):
            size, limit = right, left
        case _:
            return False
    return _is_size(module, size) and _is_limit(project, module, limit)


def _is_size(module: ModuleIndex, node: ast.expr) -> bool:
    """``x.shape[1]``, ``len(x)``, and ``t`` of ``n, t, h, w = x.size()``"""
    match node:
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case ast.Subscript(value=ast.Call() as call) | (ast.Call() as call):
            return last_name(call.func) in _SIZES
        case ast.Name(id=name):
            bindings = reaching(module, module.scope(node).lookup(name), node)
            return bool(bindings) and all(
                one.kind is BindingKind.ASSIGN
                and one.value is not None
                and not isinstance(one.value, ast.Name)
                and (_is_size(module, one.value) or (bool(one.path) and _is_shape(one.value)))
                for one in bindings
            )
    return False


def _is_shape(value: ast.expr) -> bool:
    return isinstance(value, ast.Attribute) and value.attr == "shape"


def _is_limit(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    known = project.fact(Constants).of(module, node)
    numbers = [one.value for one in known.values if isinstance(one.value, int | float)]
    if known.complete and numbers:
        return min(numbers) >= MIN_LIMIT
    return isinstance(node, ast.Name | ast.Attribute) and bool(_LIMIT.search(last_name(node)))
