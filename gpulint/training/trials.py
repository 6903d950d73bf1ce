"""Loops that try something else in each round, variants or how large a batch fits in memory: no training does so."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, LoopNode, ModuleIndex, last_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpulint.project import Project

_SIZE = regex.compile(r"(^|_)(bs|bsz|sizes?|seq_?len|lens?|lengths?|resolution|res|tokens|width|height|dim)(_|$)")
"""Names of what such a loop counts."""
_OUT_OF_MEMORY = regex.compile(r"out_?of_?memory|out of memory|(^|_)oom(_|$)", re.IGNORECASE)
_PEAKS = frozenset({"reset_peak_memory_stats", "reset_max_memory_allocated", "reset_accumulated_memory_stats"})
"""Calls before a measurement of memory."""
MEASURES = frozenset(
    "memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached memory_stats "
    "memory_summary mem_get_info reset_peak_memory_stats virtual_memory memory_info memory_full_info "
    "nvmlDeviceGetMemoryInfo get_objects".split()
)
"""Calls that look at how much memory is in use."""
_BACKWARD = frozenset({"backward", "manual_backward"})
_UPDATES = regex.compile(r"^(train_?|update_?)?step$|optim|scaler|minimi[sz]e|update|engine|closure", re.IGNORECASE)
"""Names in what updates weights."""
_SCALES = (ast.Mult, ast.Div, ast.FloorDiv, ast.LShift, ast.RShift)


def tries_variants(module: ModuleIndex, loop: LoopNode) -> bool:
    """Return whether a loop goes over a list that is written out, in the loop or, of constants, under a name (``for
    stride in (1, 2)``)."""
    if isinstance(loop, ast.While):
        return False
    source = loop.iter
    if isinstance(source, ast.List | ast.Tuple):
        return True
    bindings = module.scope(source).lookup(source.id) if isinstance(source, ast.Name) else ()
    value = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
    return isinstance(value, ast.List | ast.Tuple) and all(isinstance(one, ast.Constant) for one in value.elts)


def probes_memory(project: Project, module: ModuleIndex, loop: LoopNode, calls: Iterable[ast.Call]) -> bool:
    """Return whether a loop tries sizes, of which it or a function that it calls measures the memory, or catches that
    it is short; ``calls`` are those of the loop itself."""
    return _tries_sizes(loop) and any(_watches_memory(part) for part in _run(project, module, loop, calls))


def measures_memory(project: Project, module: ModuleIndex, loop: LoopNode, calls: Iterable[ast.Call]) -> bool:
    """Return whether a loop propagates gradients to see how much memory that takes: it or a function that it calls
    looks at the memory in use, and nothing in its function updates weights."""
    calls = list(calls)
    if not any(last_name(call.func) in _BACKWARD for call in calls):
        return False
    for part in walk(module.function(loop) or module.syntax.tree):
        if isinstance(part, ast.Name | ast.Attribute) and _UPDATES.search(last_name(part)):
            return False
    return any(
        isinstance(part, ast.Call) and last_name(part.func) in MEASURES
        for owner in _run(project, module, loop, calls)
        for part in walk(owner)
    )


def _tries_sizes(loop: LoopNode) -> bool:
    """Return whether a loop goes over sizes, or multiplies, divides or halves something in each round."""
    if not isinstance(loop, ast.While):
        return any(isinstance(part, ast.Name) and _SIZE.search(part.id) for part in walk(loop.target))
    tested = {part.id for part in walk(loop.test) if isinstance(part, ast.Name)}
    for part in walk(loop):
        match part:
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if _scales(name, op, value):
                return True
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if any(_is_part_of(one, name, tested | {name}) for one in walk(value)):
                    return True
    return False


def _is_part_of(node: ast.AST, name: str, names: set[str]) -> bool:
    """Return whether a value is a multiple or a part of one of some names (``(low + high) // 2``)."""
    if not isinstance(node, ast.BinOp) or not _scales(name, node.op, node.right):
        return False
    return any(isinstance(part, ast.Name) and part.id in names for part in walk(node.left))


def _scales(name: str, op: ast.operator, by: ast.expr) -> bool:
    """Return whether an operation makes a size of something from another one: by a whole number, unless its name says
    that it is a size (a learning rate is multiplied by 0.9)."""
    whole = isinstance(op, ast.FloorDiv | ast.LShift | ast.RShift) or (
        isinstance(by, ast.Constant) and isinstance(by.value, int)
    )
    return isinstance(op, _SCALES) and (whole or bool(_SIZE.search(name)))


def _run(project: Project, module: ModuleIndex, loop: LoopNode, calls: Iterable[ast.Call]) -> Iterator[ast.AST]:
    yield loop
    resolver = project.fact(Resolver)
    for call in calls:
        yield from (ref.node for ref in resolver.callees(module, call) if isinstance(ref.node, FUNCTIONS))


def _watches_memory(owner: ast.AST) -> bool:
    for part in walk(owner):
        if isinstance(part, ast.Call) and last_name(part.func) in _PEAKS:
            return True
        if isinstance(part, ast.ExceptHandler) and any(map(_names_memory, walk(part))):
            return True
    return False


def _names_memory(node: ast.AST) -> bool:
    """``torch.cuda.OutOfMemoryError``, ``"out of memory" in str(error)``, ``is_oom_error(error)``"""
    match node:
        case ast.Constant(value=str(text)):
            return bool(_OUT_OF_MEMORY.search(text))
        case ast.Name() | ast.Attribute():
            return bool(_OUT_OF_MEMORY.search(last_name(node)))
    return False
