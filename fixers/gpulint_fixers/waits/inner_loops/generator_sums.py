"""Sums of numbers that a comprehension reads one by one: ``sum(p.grad.norm().item() ** 2 for p in parameters)``."""

from __future__ import annotations

import ast
from typing import TypeGuard

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.waits.device_reads import DeviceRead, reads_of, without_cast
from gpulint_fixers.waits.double_precision import has_doubles, in_single
from gpulint_fixers.waits.element_types import is_integer
from gpulint_fixers.waits.sums.device_sums import exactness

_FEW = 8
"""Most values that are written out, of which one sum saves little."""


def summed_once(project: Project, found: HostWait) -> Fix | None:
    """Add up on the GPU, and read the sum."""
    module, reads = found.module, reads_of(project, found)
    if isinstance(reads, Declined) or not reads:
        return None
    sums = dict[ast.Call, list[DeviceRead]]()
    for read in reads:
        around = _sum_around(module, read.whole)
        if around is None:
            return None
        sums.setdefault(around, []).append(read)
    if all(map(_adds_few, sums)):
        return None
    edits, reasons = list[Edit](), list[str]()
    for call, own in sums.items():
        element, uncast = without_cast(module, call.args[0].elt, own)  # type: ignore[attr-defined]
        edits += uncast
        exact = exactness(project, module, element, own)
        if isinstance(exact, Declined):
            return None
        counts = all(is_integer(module, read.tensor) for read in own)
        doubles = ".double()" * (has_doubles(project, module) and not counts)
        edits += [read.replaced(module, _bare(read) + doubles) for read in own]
        edits += _converted(module, call, "int" if counts and element is own[0].whole else "float")
        reasons += exact.reasons
    if not has_doubles(project, module):
        reasons.append(f"the sum is {in_single(project, module)}")
    description = "; ".join(["add up on the GPU and read the sum, instead of each value", *dict.fromkeys(reasons)])
    return Fix(description, Safety.UNSAFE, tuple(dict.fromkeys(edits)))


def _sum_around(module: ModuleIndex, node: ast.expr) -> ast.Call | None:
    """The ``sum(...)`` of a comprehension whose element a read is part of."""
    inner: ast.AST = node
    while isinstance(up := module.syntax.parents.get(inner), ast.BinOp) or _is_float(up):
        inner = up
    if not isinstance(up, ast.GeneratorExp | ast.ListComp) or up.elt is not inner:
        return None
    call = module.syntax.parents.get(up)
    match call:
        case ast.Call(func=ast.Name(id="sum"), args=[only], keywords=[]) if only is up:
            return None if module.scope(call).lookup("sum") else call
    return None


def _adds_few(call: ast.Call) -> bool:
    """Return whether a sum adds a few values that are written out: after the first read the others wait for nothing,
    and the step waits for the sum all the same."""
    match call.args[0]:
        case ast.GeneratorExp(generators=[one]) | ast.ListComp(generators=[one]):
            return isinstance(one.iter, ast.List | ast.Tuple) and len(one.iter.elts) <= _FEW
    return False


def _is_float(node: ast.AST | None) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float"


def _bare(read: DeviceRead) -> str:
    """A gradient has none itself."""
    is_gradient = any(isinstance(part, ast.Attribute) and part.attr == "grad" for part in walk(read.tensor))
    return "" if is_gradient else ".detach()"


def _converted(module: ModuleIndex, call: ast.Call, number: str) -> list[Edit]:
    """``float(sum(...))``, unless that is there already."""
    up, syntax = module.syntax.parents.get(call), module.syntax
    if isinstance(up, ast.Call) and isinstance(up.func, ast.Name) and up.func.id == "float" and up.args == [call]:
        return []
    start, end = syntax.offsets(call)
    return [
        Edit(module.path, syntax.span_at(start, start), f"{number}("),
        Edit(module.path, syntax.span_at(end, end), ")"),
    ]
