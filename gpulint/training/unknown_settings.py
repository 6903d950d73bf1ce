"""Places that a step reaches only where a setting is on, or a comparison holds, of which nothing is known, or which all
configuration files of the tree decide otherwise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import is_of_processes
from gpulint.training.loop_roles import Role
from gpulint.values.constants import Constants
from gpulint.values.counter_names import is_counter
from gpulint.values.tested_settings import is_set_otherwise
from gpulint.values.tree_settings import everywhere
from gpulint.workspace.module_index import NodeRef, last_name, source_text

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loop_contexts import LoopContext
    from gpulint.workspace.module_index import ModuleIndex

_HOLDS = regex.compile(
    r"train|cuda|gpu|device|distributed|main|master|rank|wandb|logger|sync_gradients|requires_grad|numel\(|len\(",
    re.IGNORECASE,
)
"""What usually holds where a job trains on GPUs."""
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_OF_VALUES = frozenset({"isinstance", "hasattr", "bool", "all", "any"})
"""Functions that tell what a value is, whatever it counts."""
_CONTAINERS = frozenset({"list", "tuple", "dict", "str"})


def is_by_unknown_setting(
    project: Project, module: ModuleIndex, node: ast.AST, contexts: Iterable[LoopContext]
) -> bool:
    """Return whether every way from the training loops among ``contexts`` to a place is under a switch or a comparison
    whose outcome the tree does not tell: ``if self.cache``, ``if args.weight > 0``, ``if isinstance(loss, list)``; or
    that a function picks some steps by: ``if is_due(step)``; or the other branch of a test of a setting that the
    configuration files of the tree decide: ``if config.clip != -1``, where all say ``clip: 5.0``."""
    ways = [_way(module, node, context) for context in contexts if context.role is Role.STEP]
    return bool(ways) and all(any(_may_fail(project, *test) for test in way) for way in ways)


def _way(module: ModuleIndex, node: ast.AST, context: LoopContext) -> list[tuple[ModuleIndex, ast.expr, bool]]:
    """Return the tests on the way from a loop to a place, in its function and in those that call it, and whether they
    have to hold."""
    places = [(module, node), *((site.module, site.node) for site in context.calls)]
    return [
        (where, part, holds)
        for where, at in places
        for test, wanted in conditions(where, at, context.loop.node)
        for part, holds in parts_of(test, wanted)
    ]


def _may_fail(project: Project, module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    return (holds and _is_unknown(project, module, test)) or is_set_otherwise(project, module, test, holds)


def _is_unknown(project: Project, module: ModuleIndex, test: ast.expr) -> bool:
    if is_of_processes(module, test) or _HOLDS.search(source_text(module, test)):
        return False
    match test:
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return not _is_known_true(project, module, test)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[ast.Constant(value=True)]):
            return not _is_known_true(project, module, left)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(isinstance(op, _ORDERED) for op in ops):
            return not any(map(is_counter, (left, *others))) and not _is_known_true(project, module, left)
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, types]):
            kinds = types.elts if isinstance(types, ast.Tuple) else [types]
            return all(last_name(kind) in _CONTAINERS for kind in kinds)
        case ast.Call(func=func, args=args):
            return any(map(is_counter, args)) and last_name(func) not in _OF_VALUES
    return False


def _is_known_true(project: Project, module: ModuleIndex, setting: ast.expr) -> bool:
    """Return whether all known values of a setting are on."""
    known = project.fact(Constants).of(module, setting)
    return (bool(known.values) and all(known.constants)) or _is_on_by_default(project, module, setting)


def _is_on_by_default(project: Project, module: ModuleIndex, setting: ast.expr) -> bool:
    """Return whether a setting is read with a default that is on (``bool(config.get("enabled", True))``), and files of
    the tree, in which sections have that key for something else, do not all say otherwise."""
    reads = [(ref, _read_with_default(ref.node)) for ref in project.fact(Resolver).points_to(module, setting)]
    for ref, read in reads:
        if read is None:
            return False
        values = everywhere(project, NodeRef(ref.module, read))
        if values and not any(values):
            return False
    return bool(reads)


def _read_with_default(node: ast.AST) -> ast.Call | None:
    """Return ``config.get("enabled", True)`` of a value, if it is that."""
    match node:
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            return _read_with_default(inner)
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str()), ast.Constant(value=True)]):
            return node
    return None
