"""Copies of batches to the GPU that gain nothing from pinned memory, or from not waiting for them."""

from __future__ import annotations

import ast
import itertools
import re

from gpulint import regex
from gpulint.documents.python import PythonModule, walk
from gpulint.fix import Edit
from gpulint.placement.batch_classes import is_whole
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.device_transfers import Transfer
from gpulint.placement.host_copies import WIDENS, is_new
from gpulint.project import Project
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import (
    FUNCTIONS,
    LOOPS,
    Binding,
    BindingKind,
    ModuleIndex,
    NodeRef,
    dotted,
    last_name,
)

_GENERATES = regex.compile(
    r"^(batch_)?(generate|beam_search|beam_decode|greedy_search|greedy_decode|sample_loop)(_|$)"
    r"|^(p|ddim|ddpm)_sample(_loop)?$|_beam_search$|_sample_loop$"
)
"""Functions that call a model many times for one batch."""
_SAMPLERS = regex.compile(r"diffus|ddpm|ddim|ema|sampler|unet|model|generator|(^|_)net$|flow", re.IGNORECASE)
ON_CPU = "NumPy reads the moved tensor, so that the program runs on the CPU"
SWAPPED = (
    "convert the batch on the GPU instead of the host, with equal values (if it holds doubles, these are twice as many "
    "bytes to copy, and devices like `mps` take none)"
)
_WIDE = frozenset(f"torch.{name}" for name in "float32 float float64 double int64 long int32 int".split())
_OF_HOST = {"FloatTensor": "float", "DoubleTensor": "double", "LongTensor": "long", "IntTensor": "int"}
"""Types of tensors on the host, and the methods that convert to them wherever a tensor is."""
NOT_PINNED = "what is moved was computed from the batch, so that it is not in pinned memory"
DISCARDED = "the copy is discarded, and the tensor stays where it is: assign it (`x = x.to(device)`)"
SINGLE = "only a single batch is copied, so nothing overlaps with the copy"
RAISES = "the statement has another number of values than of variables, so that it always raises an error"
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
    if isinstance(module.syntax.parents.get(call), ast.Expr) and not is_whole(transfer.value, transfer.batch_read):
        return DISCARDED
    if _always_raises(module, call):
        return RAISES
    if _is_first_batch(transfer.value):
        return SINGLE
    if _joins(transfer.value) or _may_pick_rows(module, call):
        return NOT_PINNED
    whole = transfer.value
    while isinstance(whole, ast.Subscript):
        whole = whole.value
    if isinstance(whole, ast.Name):
        bound = reaching(module, module.scope(call).lookup(whole.id), call)
        values = [value for one in bound if (value := bound_value(one)) is not None]
        if any(map(_is_first_batch, values)):
            return SINGLE
        if whole is transfer.value and any(_makes_new(project, module, value) for value in values):
            return NOT_PINNED
    if (slow := _generating(project, transfer)) is not None:
        return f"`{slow}` calls a model many times for each batch, beside which the copy takes no time"
    return ""


def _always_raises(module: ModuleIndex, call: ast.Call) -> bool:
    """``x, y = x.cuda(), y.cuda(), mask.cuda()``"""
    match next((up for up in module.syntax.ancestors(call) if isinstance(up, ast.stmt)), None):
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            return len(names) != len(values) and not any(isinstance(one, ast.Starred) for one in (*names, *values))
    return False


def swapped_conversion(module: ModuleIndex, call: ast.Call) -> list[Edit]:
    """The two edits that make ``x.float().to(device)`` into ``x.to(device).float()``; empty for other copies."""
    syntax, inner = module.syntax, call.func
    assert isinstance(inner, ast.Attribute)
    value, converted = inner.value, ""
    while (found := _conversion(syntax, value)) is not None:
        value, converted = found[0], f"{found[1]}{converted}"
    start, middle, end = (syntax.offsets(node)[1] for node in (value, inner.value, call))
    is_lost = syntax.source.text[start:middle].count("#") > converted.count("#")  # a comment in what is replaced
    if value is inner.value or is_new(module, value) or is_lost:
        return []
    gone = Edit(syntax.path, syntax.span_at(start, middle), "")
    return [gone, Edit(syntax.path, syntax.span_at(end, end), converted)]


def _conversion(syntax: PythonModule, value: ast.expr) -> tuple[ast.expr, str] | None:
    """Return what a call converts, and the text of a conversion that is as well done on the GPU: ``.float()``,
    ``.to(torch.float32)``, ``.long()`` for ``.type(torch.LongTensor)``, which names a type of the host."""
    match value:
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[], keywords=[]) if name in WIDENS:
            pass
        case ast.Call(func=ast.Attribute(value=owner, attr="to"), args=[ast.Attribute() as dtype], keywords=[]) if (
            dotted(dtype) in _WIDE
        ):
            pass
        case ast.Call(
            func=ast.Attribute(value=owner, attr="type"),
            args=[ast.Attribute(value=ast.Name(id="torch"), attr=name)],
            keywords=[],
        ) if name in _OF_HOST:
            return owner, f".{_OF_HOST[name]}()"
        case _:
            return None
    return owner, syntax.source.text[syntax.offsets(owner)[1] : syntax.offsets(value)[1]]


def is_changed_after(transfer: Transfer) -> bool:
    """Return whether the host changes a batch in place in the loop in which it is copied (``x.zero_()``): a copy that
    does not wait might take the new values."""
    module, call, value = transfer.call.module, transfer.node, transfer.value
    statement = module.syntax.parents.get(call)
    named = {ast.unparse(target) for target in getattr(statement, "targets", ())}
    loop = next((up for up in module.syntax.ancestors(call) if isinstance(up, LOOPS)), None)
    if not isinstance(value, ast.Name) or value.id in named or loop is None:
        return False
    for part in walk(loop):
        match part:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=own), attr=attr)):
                changes = attr.endswith("_") and not attr.endswith("__") and attr != "requires_grad_"
            case ast.AugAssign(target=ast.Name(id=own) | ast.Subscript(value=ast.Name(id=own))):
                changes = True
            case ast.Subscript(value=ast.Name(id=own), ctx=ast.Store()):
                changes = True
            case _:
                continue
        if changes and own == value.id and getattr(part, "lineno", 0) >= call.lineno:
            return True
    return False


def _is_first_batch(value: ast.expr | None) -> bool:
    """``next(iter(loader))[:8]``"""
    while isinstance(value, ast.Subscript):
        value = value.value
    match value:
        case ast.Call(func=ast.Name(id="next"), args=[ast.Call(func=ast.Name(id="iter")), *_]):
            return True
    return False


def bound_value(binding: Binding) -> ast.expr | None:
    """The value that a variable gets: its part of ``x, y = x[mask], y[mask]``."""
    value = binding.value
    for step in binding.path:
        if not isinstance(value, ast.Tuple | ast.List) or step >= len(value.elts):
            return binding.value
        value = value.elts[step]
    return value


def unknown_class(transfer: Transfer) -> str:
    """Return the class that the function tests the moved value for, which is no tensor and whose method may not take
    the option: ``if isinstance(batch, Latents)``."""
    module, call, value = transfer.call.module, transfer.node, transfer.value
    while isinstance(value, ast.Attribute | ast.Subscript):
        value = value.value
    function = module.function(call)
    if not isinstance(value, ast.Name):
        return ""
    for test in module.calls_by_name.get("isinstance", []):
        if module.function(test) is not function or len(test.args) != 2 or ast.unparse(test.args[0]) != value.id:
            continue
        tested = test.args[1].elts if isinstance(test.args[1], ast.Tuple) else [test.args[1]]
        for one in tested:
            if last_name(one) not in _CONTAINERS:
                return ast.unparse(one)
    return ""


_CONTAINERS = frozenset(
    "Tensor FloatTensor LongTensor dict list tuple set str bytes int float bool ndarray Mapping Sequence Iterable "
    "MutableMapping OrderedDict defaultdict BatchEncoding BatchFeature Variable Parameter NoneType".split()
)
"""Classes that have no such method, or one that takes the option."""


def _generating(project: Project, transfer: Transfer) -> str | None:
    """The call of the loop, in each of its rounds, that generates or searches with a model; None if there is none."""
    read = transfer.batch_read
    if read is None or read.where.module is not transfer.call.module or not isinstance(read.where.node, LOOPS):
        return None
    module, loop = read.where.module, read.where.node
    for call in (part for part in walk(loop) if isinstance(part, ast.Call)):
        ups = itertools.takewhile(lambda up: up is not loop, module.syntax.ancestors(call))
        if any(isinstance(up, (ast.If, *FUNCTIONS)) for up in ups):
            continue
        name = last_name(call.func)
        if _GENERATES.search(name) is not None or _samples(call):
            return ast.unparse(call.func)
    return None


def _samples(call: ast.Call) -> bool:
    """``diffusion.sample(shape=...)``, not ``distribution.sample()``."""
    match call.func:
        case ast.Attribute(attr="sample", value=owner) if call.args or call.keywords:
            return _SAMPLERS.search(last_name(owner)) is not None
    return False


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
    if isinstance(value, ast.BinOp) or is_new(module, value):
        return True
    if isinstance(value, ast.Call):
        return any(_selects(project, ref) for ref in project.fact(Resolver).callees(module, value))
    return False


def _may_pick_rows(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether what is moved is indexed by a variable that may be a mask: ``x[kept].cuda()`` with what a function
    returned."""
    func = call.func
    for part in walk(func.value) if isinstance(func, ast.Attribute) else ():
        if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Name):
            bound = reaching(module, module.scope(part.slice).lookup(part.slice.id), part.slice)
            if any(one.kind is BindingKind.ASSIGN and isinstance(one.value, ast.Call) for one in bound):
                return True
    return False


def has_no_batch(project: Project, transfer: Transfer) -> bool:
    """Return whether what is moved is a parameter for which some call passes anything but a batch, such as what a model
    computed, which is on the GPU already."""
    module, value = transfer.call.module, transfer.value
    function = module.function(transfer.node)
    while isinstance(value, ast.Attribute | ast.Subscript | ast.Call):
        value = value.func if isinstance(value, ast.Call) else value.value
    if function is None or not isinstance(value, ast.Name) or value.id not in parameters(function):
        return False
    sites = project.fact(Resolver).call_sites(module, function)
    calls = [(site.module, site.node) for site in sites if isinstance(site.node, ast.Call)]
    passed = [(where, argument_of(function, call, value.id)) for where, call in calls]
    flow = project.fact(BatchFlow)
    return any(given is not None and flow.batch_of(where, given) is None for where, given in passed)


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
