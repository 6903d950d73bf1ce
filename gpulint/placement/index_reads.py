"""Numbers of a tensor on the GPU that a loop indexes with one by one: ``bank[target]`` of ``for row, target in
zip(rows, targets)``, ``names[ids[i]]``. The host reads each of them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.subscript_indices import is_limited, loops_around, source_of, targets
from gpulint.placement.sync_points import SyncPoint, is_index_read
from gpulint.query import query
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.function_applications import owner_of
from gpulint.values.bound_parts import bound_part
from gpulint.workspace.module_index import BindingKind, LoopNode, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_NUMBERS = regex.compile(r"(^|_)(targets?|labels?|p?ids?|cams?|camids?|indexe?s|classes|y)$")
"""Names of tensors that hold one number for each sample."""
_COPIES = frozenset({"cpu", "numpy", "tolist", "item", "shape", "size"})
_COLLECTIONS = frozenset({"list", "tuple", "dict", "map"})
_MOST_NAMES = 3
"""Names that a tensor is followed through."""
_COUNTS = frozenset({"range", "trange", "enumerate"})


def read_index(
    project: Project, module: ModuleIndex, item: ast.Subscript, is_tensor: Callable[[ModuleIndex, ast.expr], bool]
) -> ast.expr | None:
    """Return the number of a tensor on the GPU that a loop over the samples of a batch indexes with, where it first
    does in a round; None if there is none."""
    loops = loops_around(module, item)
    for index in _parts(item.slice) if loops else ():
        for loop in loops:
            if is_limited(loop):
                continue
            source = _source(loop, index)
            if source is None or not _NUMBERS.search(last_name(source)) or item not in _first_uses(module, loop):
                continue
            if _is_saved(module, source) or is_tensor(module, source) or _is_moved(project, module, source):
                return index
    return None


def _parts(index: ast.expr) -> list[ast.expr]:
    return index.elts if isinstance(index, ast.Tuple) else [index]


def _source(loop: LoopNode | ast.comprehension, index: ast.expr) -> ast.expr | None:
    """Return the tensor of which each round of a loop indexes with one number: ``targets`` of ``target`` and of
    ``targets[i]``."""
    match index:
        case ast.Name(id=name) if name in targets(loop):
            found = source_of(loop, name)
            return found if isinstance(found, ast.Name | ast.Attribute) else None
        case ast.Subscript(value=ast.Name() | ast.Attribute() as source, slice=ast.Name(id=name)):
            return source if name in _counters(loop) else None
    return None


def _counters(loop: LoopNode | ast.comprehension) -> set[str]:
    """Return the name that counts the rounds of a loop: ``for i in range(n)``, ``for i, x in enumerate(xs)``."""
    if not isinstance(loop, ast.For | ast.AsyncFor | ast.comprehension) or not isinstance(loop.iter, ast.Call):
        return set()
    if last_name(loop.iter.func) not in _COUNTS:
        return set()
    target = loop.target
    if isinstance(target, ast.Tuple):
        target = target.elts[0]
    return {target.id} if isinstance(target, ast.Name) else set()


@query
def _first_uses(module: ModuleIndex, loop: LoopNode | ast.comprehension) -> frozenset[ast.Subscript]:
    """Return the subscripts of a loop that are the first ones with their index."""
    body = walk(module.syntax.parents[loop] if isinstance(loop, ast.comprehension) else loop)
    found = dict[str, ast.Subscript]()
    items = [part for part in body if isinstance(part, ast.Subscript)]
    for item in sorted(items, key=lambda one: (one.lineno, one.col_offset, -(one.end_col_offset or 0))):
        for index in _parts(item.slice):
            if isinstance(index, ast.Name | ast.Subscript):
                found.setdefault(ast.unparse(index), item)
    return frozenset(found.values())


def _is_saved(module: ModuleIndex, source: ast.expr) -> bool:
    """Return whether a name is one of ``ctx.saved_tensors`` in the ``backward`` of an ``autograd.Function``."""
    function = module.function(source)
    if not isinstance(source, ast.Name) or function is None or owner_of(module, function) is None:
        return False
    bound = reaching(module, module.scope(source).lookup(source.id), source)
    return bool(bound) and all(
        one.kind is BindingKind.ASSIGN
        and one.value is not None
        and any(isinstance(part, ast.Attribute) and part.attr == "saved_tensors" for part in walk(one.value))
        for one in bound
    )


def _is_moved(
    project: Project, module: ModuleIndex, source: ast.expr, depth: int = _MOST_NAMES, *, is_part: bool = False
) -> bool:
    """Return whether a name is a copy on the GPU, or a part of what is copied there: ``batch = tuple(t.cuda() for t in
    batch)``, then ``images, labels = batch``. The tuple itself is no tensor."""
    if not isinstance(source, ast.Name):
        return False
    bound = reaching(module, module.scope(source).lookup(source.id), source)
    for one in bound:
        if one.kind is not BindingKind.ASSIGN or one.value is None:
            return False
        own = bound_part(one)
        value, taken = own or one.value, is_part or own is None
        if isinstance(value, ast.Name):
            if depth <= 0 or not _is_moved(project, module, value, depth - 1, is_part=taken):
                return False
        elif _leaves(value) or (_is_collection(value) and not taken) or not _moves(project, module, value):
            return False
    return bool(bound)


def _is_collection(value: ast.expr) -> bool:
    """``[t.cuda() for t in targets]``, ``tuple(...)``"""
    made = isinstance(value, ast.Call) and last_name(value.func) in _COLLECTIONS
    return made or isinstance(value, ast.List | ast.Tuple | ast.Dict | ast.ListComp | ast.DictComp | ast.GeneratorExp)


def _moves(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a part of an expression is a copy to the GPU."""
    transfers = (
        project.fact(DeviceTransfers).transfer_at(module, part) for part in walk(value) if isinstance(part, ast.Call)
    )
    return any(transfer is not None and transfer.to_gpu for transfer in transfers)


def _leaves(value: ast.expr) -> bool:
    """``labels.cuda().tolist()``"""
    return any(isinstance(part, ast.Attribute) and part.attr in _COPIES for part in walk(value))


def without_read_too(module: ModuleIndex, found: list[SyncPoint]) -> list[SyncPoint]:
    """Return waits without those for an index in a statement that waits for something else, which fixes of that one
    deal with: ``sums[labels[i]] += losses[i].item()``."""
    others = {_statement(module, one.node) for one in found if not is_index_read(one)}
    return [one for one in found if not is_index_read(one) or _statement(module, one.node) not in others]


def is_read_below(module: ModuleIndex, node: ast.expr, is_host: Callable[[ModuleIndex, ast.expr], bool]) -> bool:
    """Return whether what a mask picks goes into a value that the same statement reads from the GPU, so that it is
    there as well: ``(guesses[mask] == labels[mask]).sum().item()``."""
    assert isinstance(node, ast.Subscript)
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Call(func=ast.Attribute(value=value, attr="item"), args=[]):
                return not is_host(module, value) and not is_host(module, node.value)
            case ast.Attribute() | ast.Compare() | ast.BinOp() | ast.UnaryOp():
                continue
            case ast.Call(func=ast.Attribute() as func) if func in module.syntax.ancestors(node):
                continue
        return False
    return False


def _statement(module: ModuleIndex, node: ast.expr) -> ast.AST:
    return next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), node)
