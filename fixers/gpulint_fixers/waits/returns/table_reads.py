"""Tables of numbers that functions read from the GPU and return: what is in ``{"kl": kl.item(), "size": len(x)}``."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait, check

from gpulint.documents.python import has_operator, walk
from gpulint.fix import Declined
from gpulint.placement.tensor_location import TensorLocations
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import Binding, BindingKind, FunctionNode, ModuleIndex, last_name
from gpulint_fixers.waits.device_reads import DeviceRead, device_read
from gpulint_fixers.waits.element_types import is_integer
from gpulint_fixers.waits.returns.tables import METHODS, Table, key_of
from gpulint_fixers.waits.returns.unproved_reads import has_tensor_methods, may_read
from gpulint_fixers.waits.sums.device_sums import exactness

_DEEPEST = 6
_REDUCES = frozenset({"torch.mean", "torch.sum", "torch.var", "torch.std", "torch.min", "torch.max", "torch.norm"})


@dataclass(frozen=True, slots=True)
class _Entries:
    """What the values of a table are."""

    reads: list[DeviceRead]
    computed: set[ast.expr]
    host: bool
    """Whether they may be numbers of the host."""
    reasons: tuple[str, ...] = ()


def table_of(
    project: Project, module: ModuleIndex, function: FunctionNode, reads: list[DeviceRead] | Declined
) -> Table | None:
    """The table that the function returns, all of whose values are numbers that it reads."""
    returns = [
        node for node in ast.walk(function) if isinstance(node, ast.Return) and module.function(node) is function
    ]
    if isinstance(reads, Declined) or len(returns) != 1 or (value := returns[0].value) is None:
        return None
    for at, part in enumerate(value.elts) if isinstance(value, ast.Tuple) else ((-1, value),):
        shown, more = part, list[tuple[str, ast.expr]]()
        if isinstance(part, ast.Name):
            made = _built(module, function, part)
            if made is None:
                continue
            shown, more = made
        own = part.id if isinstance(part, ast.Name) else ""
        table = _filled(project, module, shown, more, at, own)
        if table is not None and {read.whole for read in reads} <= {read.whole for read in table.reads}:
            beside = value.elts if isinstance(value, ast.Tuple) else []
            return None if any(may_read(project, module, one) for one in beside if one is not part) else table
    return None


def _built(
    module: ModuleIndex, function: FunctionNode, name: ast.Name
) -> tuple[ast.expr, list[tuple[str, ast.expr]]] | None:
    """Return how a table starts, and the values that are stored in it; None if more is done."""
    start, stored = None, list[tuple[str, ast.expr]]()
    bindings = module.scope(name).lookup(name.id)
    for node in module.named.get(name.id, []):
        if node is name or module.scope(node).lookup(name.id) is not bindings:
            continue
        up = module.syntax.parents.get(node)
        match up, module.syntax.parents.get(up) if up is not None else None:
            case ((ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(value=ast.expr() as value)), _) if (
                start is None and (_is_dict(value) or (isinstance(value, ast.Tuple) and isinstance(up, ast.Assign)))
            ):
                start = value
            case ast.Subscript(ctx=ast.Store(), slice=key), ast.Assign(targets=[_], value=value) if start is not None:
                if not _is_dict(start):
                    return None
                stored.append((_key(key), value))
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[asked]), _ if asked is node:
                pass
            case _:
                return None
    return (start, stored) if start is not None and module.function(start) is function else None


def _is_dict(value: ast.expr) -> bool:
    """``{"kl": kl.item()}``, ``dict(kl=kl.item())``."""
    match value:
        case ast.Dict() | ast.DictComp():
            return True
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            return all(keyword.arg is not None for keyword in keywords)
    return False


def _items(shown: ast.expr) -> list[tuple[str, ast.expr]] | None:
    """The values of a table's display, with their keys; None if it is no such thing."""
    match shown:
        case ast.Dict(keys=keys, values=values):
            if not all(isinstance(key, ast.Constant) for key in keys):
                return None
            return [(key_of(key), value) for key, value in zip(keys, values, strict=True) if key is not None]
        case ast.DictComp(value=value):
            return [("", value)]
        case ast.Call(keywords=keywords) if _is_dict(shown):
            return [(f'"{keyword.arg}"', keyword.value) for keyword in keywords]
        case ast.Tuple(elts=values):
            return [("", value) for value in values]
    return None


def _key(key: ast.expr) -> str:
    """The text of a constant key; none for one that is worked out, under which any entry may be stored."""
    return key_of(key) if isinstance(key, ast.Constant) else ""


def _filled(
    project: Project, module: ModuleIndex, shown: ast.expr, more: list[tuple[str, ast.expr]], at: int, own: str
) -> Table | None:
    """The table, with values that are reads, numbers of the host, or anything else in a dictionary."""
    items = _items(shown)
    if items is None:
        return None
    found, others = list[tuple[str, _Entries]](), set[str]()
    for key, value in (*items, *more):
        entries = _entries(project, module, value)
        if (entries is None or entries.host) and not (_is_dict(shown) and key):
            return None
        if entries is None and may_read(project, module, value):
            return None  # the step would still wait for it
        if entries is None:
            others.add(key)
        else:
            found.append((key, entries))
    reads = tuple(read for _, one in found for read in one.reads)
    keys = tuple(dict.fromkeys(key for key, one in found if one.reads))
    if not reads or others.intersection(keys) or (others and "" in keys):
        return None
    computed = frozenset(read for _, one in found for read in one.computed)
    host = frozenset(key for key, one in found if one.host)
    reasons = tuple(dict.fromkeys(reason for _, one in found for reason in one.reasons))
    return Table(reads, computed, host, at, _is_dict(shown), own, reasons, keys, frozenset(others))


def _entries(project: Project, module: ModuleIndex, value: ast.expr) -> _Entries | None:
    """Return what one value of a table is: a read, a number of the host, or either by a condition."""
    if (read := _read(project, module, value)) is not None:
        return _Entries([read], set(), host=False)
    match value:
        case ast.IfExp(test=test, body=body, orelse=other):
            if _asks_for_tensor(test, other):
                first = _entries(project, module, body)
                return None if first is None or first.host else replace(first, host=True)
            return _either([_entries(project, module, part) for part in (body, other)])
        case ast.Name() if (held := _held(project, module, value)) is not None:
            return held
        case ast.BinOp() if (part := _computed(project, module, value)) is not None:
            return part
    return _Entries([], set(), host=True) if _is_host_number(module, value) else None


def _either(parts: list[_Entries | None]) -> _Entries | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    reads = [read for part in known for read in part.reads]
    reasons = tuple(reason for part in known for reason in part.reasons)
    return _Entries(reads, set().union(*(part.computed for part in known)), any(part.host for part in known), reasons)


def _asks_for_tensor(test: ast.expr, other: ast.expr) -> bool:
    """``isinstance(kl, torch.Tensor)``, of a value that is a number otherwise."""
    match test:
        case ast.Call(func=func, args=[ast.Name(id=name), *_]):
            asks = ast.unparse(func) in ("isinstance", "torch.is_tensor") and "ensor" in ast.unparse(test)
            return asks and isinstance(other, ast.Name) and other.id == name
    return False


def _held(project: Project, module: ModuleIndex, name: ast.Name) -> _Entries | None:
    """Return what a variable holds that is read earlier and used for the table alone; None for all else."""
    bindings = module.scope(name).lookup(name.id)
    bound = reaching(module, bindings, name)
    if not bound or any(one.kind is not BindingKind.ASSIGN or one.path or one.value is None for one in bound):
        return None
    loads = [
        node
        for node in module.named.get(name.id, [])
        if isinstance(node.ctx, ast.Load) and module.scope(node).lookup(name.id) is bindings and node is not name
    ]
    if any(set(bound) & set(reaching(module, bindings, node)) for node in loads):
        return None
    found = _either([_entries(project, module, one.value) for one in bound if one.value is not None])
    return found if found is not None and found.reads else None


def _computed(project: Project, module: ModuleIndex, value: ast.BinOp) -> _Entries | None:
    """``1.0 - loss.item()``, ``loss.item() * steps``"""
    reads = [
        read
        for part in walk(value)
        if isinstance(part, ast.Call) and (read := _read(project, module, part)) is not None
    ]
    outer = [read for read in reads if not any(read.whole in walk(other.whole) for other in reads if other is not read)]
    if len(outer) != 1 or has_operator(value, ast.Pow):
        return None
    exact = exactness(project, module, value, outer)
    return None if isinstance(exact, Declined) else _Entries(outer, {outer[0].whole}, host=False, reasons=exact.reasons)


@query
def _reported(project: Project, module: ModuleIndex) -> frozenset[ast.AST]:
    """Values that are known to be on the GPU, as the rule reports them for a module."""
    document = project.document(module.path)
    assert document is not None
    payloads = (finding.payload for finding in check(document, project))
    return frozenset(sync.node for found in payloads if isinstance(found, HostWait) for sync in found.syncs)


def _is_host_number(module: ModuleIndex, value: ast.expr, depth: int = 0) -> bool:
    """``0.0``, ``float(weight)``, ``len(batch)``, a rate of the optimizer, or a variable that is one of these."""
    match value:
        case ast.Constant(value=int() | float()):
            return True
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="get_last_lr" | "get_lr"))):
            return True
        case ast.Subscript(
            value=ast.Subscript(value=ast.Attribute(attr="param_groups")), slice=ast.Constant(value="lr")
        ):
            return True
        case ast.Call(func=ast.Name(id="len" | "round")):
            return True
        case ast.Call(func=ast.Name(id="float" | "int"), args=[inner]):
            return _is_host_number(module, inner, depth) or isinstance(inner, ast.Subscript)
        case ast.BinOp(left=left, right=right):
            return _is_host_number(module, left, depth) and _is_host_number(module, right, depth)
        case ast.Name(id=name) if depth < _DEEPEST:
            bound = reaching(module, module.scope(value).lookup(name), value)
            return bool(bound) and all(_holds_number(module, one, depth) for one in bound)
    return False


def _holds_number(module: ModuleIndex, binding: Binding, depth: int) -> bool:
    """Return whether a binding gives a number of the host: a parameter that is one says so (``beta: float = 1.0``)."""
    if binding.kind is BindingKind.PARAMETER and isinstance(binding.node, ast.arg):
        return binding.node.annotation is not None and ast.unparse(binding.node.annotation) in ("float", "int")
    return binding.value is not None and not binding.path and _is_host_number(module, binding.value, depth + 1)


def _read(project: Project, module: ModuleIndex, value: ast.expr) -> DeviceRead | None:
    """The read of one number of a tensor that is no count, and nothing more."""
    if not isinstance(value, ast.Call):
        return None
    read = device_read(module, _innermost(value))
    if read is None or read.whole is not value or is_integer(module, read.tensor):
        return None
    known = has_tensor_methods(value) or not _reported(project, module).isdisjoint(walk(value))
    return read if known or _is_tensor(project, module, read.tensor) else None


def _innermost(value: ast.Call) -> ast.expr:
    """``loss.item()`` of ``float(loss.item())``."""
    match value:
        case ast.Call(func=ast.Name(id="float"), args=[ast.Call(func=ast.Attribute()) as inner]):
            return inner
    return value


def _is_tensor(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a value is a tensor of PyTorch, or computed of something that the function hands to a model or to
    PyTorch."""
    if project.fact(TensorLocations).is_tensor(module, value):
        return True
    source = value
    while isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) and source.func.attr in METHODS:
        source = source.func.value
    function = module.function(value)
    if isinstance(source, ast.Name) and _is_norm(module, source):
        return True
    if function is None or not isinstance(source, ast.Name | ast.Attribute | ast.Subscript):
        return False
    text = ast.unparse(source)
    return any(
        any(ast.unparse(given) == text for given in part.args) and _takes(project, module, part)
        for part in walk(function)
        if isinstance(part, ast.Call)
    )


def _is_norm(module: ModuleIndex, name: ast.Name) -> bool:
    """Return whether a variable is the norm that the clipping of gradients returns."""
    bound = reaching(module, module.scope(name).lookup(name.id), name)
    return bool(bound) and all(
        isinstance(one.value, ast.Call) and last_name(one.value.func) == "clip_grad_norm_" and not one.path
        for one in bound
    )


def _takes(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call gets tensors: that of a model, or a function of PyTorch that reduces one."""
    resolver = project.fact(Resolver)
    if any(name in _REDUCES for name in resolver.names(module, call.func)):
        return True
    callees = resolver.callees(module, call)
    return any(isinstance(one.node, ast.FunctionDef) and one.node.name == "forward" for one in callees)
