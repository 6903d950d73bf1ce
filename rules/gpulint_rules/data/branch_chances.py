"""Places that a round of a loop may pass by, as a test of what it computes decides."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.cuda_tests import excludes_cuda
from gpulint.training.element_tests import selects_elements
from gpulint.training.empty_tests import is_for_empty, says_filled
from gpulint.training.guards import is_error, is_of_processes
from gpulint.training.loop_contexts import LoopContext
from gpulint.workspace.module_index import BindingKind, ModuleIndex, last_name

_SETTLED = frozenset(
    "isinstance issubclass hasattr getattr callable type is_available is_initialized is_tensor get keys lower upper "
    "startswith endswith ndimension dim is_grad_enabled bool int float str".split()
)
"""Calls whose result is the same in each round: of types, settings and devices."""
_MAX_NAMES = 3
"""Most variables that a test is followed back through."""


def is_seldom(module: ModuleIndex, node: ast.AST, context: LoopContext) -> bool:
    """Return whether a place, or a call on the way to it, is only reached where something is empty."""
    return any(is_for_empty(where, at) for where, at in _way(module, node, context))


def uncertain(module: ModuleIndex, places: Sequence[tuple[ast.expr, LoopContext]]) -> frozenset[ast.AST]:
    """Return those of some places of a loop that a round may pass by, without any of another branch in their stead."""
    under = {node: [*_open_tests(module, node, context)] for node, context in places}
    counts = Counter(branch for branches in under.values() for branch in branches)
    return frozenset(
        node
        for node, branches in under.items()
        if any(counts[test, not holds] < counts[test, holds] for test, holds in branches)
    )


def is_late(module: ModuleIndex, node: ast.AST, context: LoopContext) -> bool:
    """Return whether a place, or a call on the way to it, is only reached from or up to some round on: in a branch of
    ``if epoch >= 10``."""
    for where, at in _way(module, node, context):
        around = {*where.syntax.ancestors(at)}
        for test, _ in conditions(where, at, context.loop.node):
            if where.syntax.parents.get(test) in around and any(_compares_round(where, part) for part in walk(test)):
                return True
    return False


def _compares_round(module: ModuleIndex, part: ast.AST) -> bool:
    """``epoch >= warm_up`` with a variable that a loop or a statement counts"""
    if not isinstance(part, ast.Compare) or not isinstance(part.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return False
    names = (side for side in (part.left, *part.comparators) if isinstance(side, ast.Name))
    return any(
        bound.kind in (BindingKind.LOOP, BindingKind.AUGMENT)
        for name in names
        for bound in module.scope(name).lookup(name.id)
    )


def _open_tests(module: ModuleIndex, node: ast.AST, context: LoopContext) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the tests of values that each round computes which decide whether it gets to a place: neither those that
    usually hold, as something holds elements or is a number, nor those of settings, nor early exits before it."""
    loop = context.loop.node
    for where, at in _way(module, node, context):
        around = {*where.syntax.ancestors(at)}
        for test, holds in conditions(where, at, loop):
            parts = parts_of(test, holds) if where.syntax.parents.get(test) in around else ()
            if any(_is_open(where, part, wanted, loop) for part, wanted in parts):
                yield test, holds


def _is_open(module: ModuleIndex, test: ast.expr, holds: bool, loop: ast.AST) -> bool:
    usual = (
        is_of_processes(module, test)
        or excludes_cuda(module, test, not holds)
        or says_filled(module, test, holds)
        or is_error(module, test, not holds)
        or selects_elements(module, test, holds, loop)
    )
    return not usual and _is_computed(module, test, loop)


def _way(module: ModuleIndex, node: ast.AST, context: LoopContext) -> Iterator[tuple[ModuleIndex, ast.AST]]:
    yield module, node
    yield from ((site.module, site.node) for site in context.calls)


@query
def _is_computed(module: ModuleIndex, test: ast.expr, loop: ast.AST) -> bool:
    return _has_values(module, test, loop, _MAX_NAMES)


def _has_values(module: ModuleIndex, test: ast.expr, loop: ast.AST, steps: int) -> bool:
    """Return whether an expression calls something of which the result differs, or names what a round sets to such a
    result."""
    match test:
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]) | ast.Compare(left=ast.Constant(), ops=[ast.In() | ast.NotIn()]):
            return False
    for part in walk(test):
        match part:
            case ast.Call(func=func) if last_name(func) not in _SETTLED:
                return True
            case ast.Name(id=name) if steps:
                bound = reaching(module, module.scope(part).lookup(name), part)
                made = [one.value for one in bound if one.kind is BindingKind.ASSIGN and one.value is not None]
                own = [value for value in made if _is_of_round(module, value, test, loop)]
                if any(_has_values(module, value, loop, steps - 1) for value in own):
                    return True
    return False


def _is_of_round(module: ModuleIndex, value: ast.expr, test: ast.expr, loop: ast.AST) -> bool:
    """Return whether the function of a test computes a value in the same round."""
    function = module.function(test)
    outside = module.function(loop) is function and loop not in module.syntax.ancestors(value)
    return module.function(value) is function and not (outside and loop in module.syntax.ancestors(test))
