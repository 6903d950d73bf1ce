"""Copies of batches to the GPU that gain nothing from pinned memory, or from not waiting for them."""

from __future__ import annotations

import ast
import itertools

from gpulint.documents.python import walk
from gpulint.placement.device_transfers import Transfer
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

CONVERTS = frozenset("float double half long int bool type bfloat16 contiguous clone".split())
"""Methods that make a new tensor, in memory that is not pinned."""
ON_CPU = "NumPy reads the moved tensor, so that the program runs on the CPU"
NOT_PINNED = "what is moved was computed from the batch, so that it is not in pinned memory"
_READS = frozenset({"cpu", "item", "tolist", "numpy"})
"""Methods in which the host waits for the GPU."""


def no_gain(project: Project, transfer: Transfer) -> str:
    """Return why a copy that does not wait is no faster; empty where nothing says so."""
    module, call = transfer.call.module, transfer.node
    ups = list(itertools.takewhile(lambda up: not isinstance(up, ast.stmt), module.syntax.ancestors(call)))
    if any(isinstance(up, ast.Call) and last_name(up.func) in _READS for up in ups):
        return "the same expression waits for what is computed from the copy"
    if stays_on_cpu(transfer):
        return ON_CPU
    if _joins(transfer.value):
        return NOT_PINNED
    if isinstance(transfer.value, ast.Name):
        bound = reaching(module, module.scope(call).lookup(transfer.value.id), call)
        if any(one.value is not None and _makes_new(project, module, one.value) for one in bound):
            return NOT_PINNED
    return ""


def stays_on_cpu(transfer: Transfer) -> bool:
    """Return whether NumPy reads what is moved, which only works where the device is the CPU."""
    module, call = transfer.call.module, transfer.node
    match module.syntax.parents.get(call):
        case ast.Assign(targets=[ast.Name(id=name)]):
            return _reads_as_array(module, call, name)
    return False


def _reads_as_array(module: ModuleIndex, call: ast.Call, name: str) -> bool:
    """``name.data.numpy()``, without a copy to the host"""
    function = module.function(call)
    for read in module.calls_by_name.get("numpy", []):
        owner = read.func.value if isinstance(read.func, ast.Attribute) else None
        while owner is not None and not isinstance(owner, ast.Name):
            match owner:
                case ast.Attribute(value=inner, attr="data") | ast.Call(func=ast.Attribute(value=inner, attr="detach")):
                    owner = inner
                case _:
                    owner = None
        if owner is None or owner.id != name or module.function(read) is not function:
            continue
        if any(one.value is call for one in reaching(module, module.scope(owner).lookup(name), owner)):
            return True
    return False


def _makes_new(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    """``filter_nans(x, y)``, which returns ``x[~missing]``; ``x / 255`` and ``x.float()``"""
    match value:
        case ast.BinOp():
            return True
        case ast.Call() if _joins(value):
            return True
        case ast.Call(func=ast.Attribute(attr=attr)) if attr in CONVERTS:
            return True
        case ast.Call():
            return any(_selects(project, ref) for ref in project.fact(Resolver).callees(module, value))
    return False


def _joins(value: ast.expr) -> bool:
    """``torch.cat([x, y])``, which is pageable even if both are pinned."""
    match value:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="torch"), attr="cat" | "stack" | "concat" | "hstack" | "vstack")
        ):
            return True
    return False


def _selects(project: Project, ref: NodeRef) -> bool:
    """Return whether a function returns variables that it has taken out of tensors by a mask."""
    if not isinstance(ref.node, FUNCTIONS):
        return False
    returned = {
        part.id
        for value in project.fact(Resolver).returns(ref.node)
        for part in (value.elts if isinstance(value, ast.Tuple) else [value])
        if isinstance(part, ast.Name)
    }
    return any(
        isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id in returned for target in node.targets)
        and isinstance(node.value, ast.Subscript)
        and isinstance(node.value.slice, ast.UnaryOp | ast.Compare | ast.BinOp)
        for node in walk(ref.node)
    )
