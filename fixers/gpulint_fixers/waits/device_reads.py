"""Numbers that are read from the GPU: what expression they come from, and that expression without the read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit
from gpulint.placement.host_results import copies_to_host
from gpulint.placement.tensor_location import TensorLocations
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import BindingKind, ModuleIndex, last_name
from gpulint_fixers.waits.array_numbers import is_of_numpy
from gpulint_fixers.waits.element_types import is_about_loss, is_integer, only_value
from gpulint_fixers.waits.number_sources import may_be_cast_number

_STRIPPED = frozenset({"item", "cpu", "detach", "data", "numpy"})
"""What a read of one number consists of; ``.detach()`` is added again."""
_OTHER_LIBRARIES = frozenset({"jax", "tensorflow", "paddle", "mindspore", "mxnet"})
_REDUCES = frozenset({"sum", "mean", "max", "min"})
"""Methods that make one number of a tensor, if they get no dimension."""
_CASTS = frozenset({"float", "double", "long", "int"})


@dataclass(frozen=True, slots=True)
class DeviceRead:
    """``loss.item()``: the whole expression, and the tensor that it reads."""

    whole: ast.expr
    tensor: ast.expr
    cut: int
    """Offset in the module's text from which the expression is only about reading; -1 for ``float(loss)``."""
    copies: tuple[ast.Call, ...] = ()
    """Copies of a whole tensor to the host, which ``tensor`` reduces to one number."""

    def replaced(self, module: ModuleIndex, suffix: str) -> Edit:
        """The tensor itself in the place of the number that is read."""
        syntax = module.syntax
        start, end = syntax.offsets(self.whole)
        if self.cut >= 0:
            first = min((_dot(module, copy) for copy in self.copies), default=self.cut)
            return Edit(syntax.path, syntax.span_at(first, end), f"{self._text(module, first, self.cut)}{suffix}")
        text = self.tensor_text(module)
        plain = isinstance(self.tensor, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        return Edit(syntax.path, syntax.span_at(start, end), f"{text if plain else f'({text})'}{suffix}")

    def tensor_text(self, module: ModuleIndex) -> str:
        """The tensor as it is written, without the copies in it."""
        return self._text(module, *module.syntax.offsets(self.tensor))

    def _text(self, module: ModuleIndex, start: int, end: int) -> str:
        """A part of the module's text without the copies in it."""
        syntax, kept = module.syntax, list[str]()
        for copy in sorted(self.copies, key=lambda copy: syntax.offsets(copy)[1]):
            kept.append(syntax.source.text[start : _dot(module, copy)])
            start = syntax.offsets(copy)[1]
        return "".join([*kept, syntax.source.text[start:end]])


def _dot(module: ModuleIndex, copy: ast.Call) -> int:
    """The offset of the dot of ``tensor.cpu()``."""
    return module.syntax.source.text.rindex(".", 0, module.syntax.offsets(copy.func)[1])


def device_read(module: ModuleIndex, sync: ast.expr) -> DeviceRead | None:
    """The read of one number that ``sync`` is part of; None if it is more than that (``.numpy()``, a comment)."""
    syntax, whole = module.syntax, sync
    while isinstance(up := syntax.parents.get(whole), ast.Attribute) and up.attr in _STRIPPED:
        call = syntax.parents.get(up)
        whole = call if isinstance(call, ast.Call) and call.func is up and not call.args else up
    if isinstance(whole, ast.Call) and isinstance(whole.func, ast.Name) and whole.func.id in ("float", "int"):
        return DeviceRead(whole, whole.args[0], -1) if _converts(module, whole) else None
    outer = syntax.parents.get(whole)
    if isinstance(outer, ast.Call) and _converts(module, outer):  # `float(loss.item())`, `float(loss.detach().cpu())`
        read = _tensor(whole)
        plain = "#" not in syntax.text(outer) and "\n" not in syntax.text(read)
        return DeviceRead(outer, read, -1) if plain else None
    if not _reads_number(whole):
        return None
    cut, tensor = -1, whole
    while (inner := _receiver(tensor)) is not None:
        attribute, tensor = inner
        cut = syntax.source.text.rindex(".", 0, syntax.offsets(attribute)[1])
    return (
        None if cut < 0 or "#" in syntax.source.text[cut : syntax.offsets(whole)[1]] else DeviceRead(whole, tensor, cut)
    )


def is_detached(tensor: ast.expr) -> bool:
    """Return whether a tensor has no graph as it is written: ``weight.detach().abs().sum()``, ``weight.data.max()``."""
    while isinstance(tensor, ast.Call | ast.Attribute | ast.Subscript):
        if isinstance(tensor, ast.Attribute) and tensor.attr in ("detach", "data"):
            return True
        if isinstance(tensor, ast.Call) and not isinstance(tensor.func, ast.Attribute):
            return False
        tensor = tensor.func if isinstance(tensor, ast.Call) else tensor.value
    return False


def read_around(module: ModuleIndex, node: ast.expr) -> DeviceRead | None:
    """The read of one number of which ``node`` is the tensor; None if the tensor is used otherwise."""
    parents, top = module.syntax.parents, node
    while isinstance(up := parents.get(top), ast.Attribute) and up.attr in _STRIPPED:
        call = parents.get(up)
        top = call if isinstance(call, ast.Call) and call.func is up and not call.args else up
    if isinstance(up, ast.Call) and up.args == [top] and _converts(module, up):
        top = up
    read = device_read(module, top) if top is not node else None
    return read if read is not None and read.tensor is node else None


def _converts(module: ModuleIndex, call: ast.Call) -> bool:
    """``float(...)`` of one value, ``int(...)`` of a count."""
    if not isinstance(call.func, ast.Name) or len(call.args) != 1 or call.keywords:
        return False
    value = call.args[0]
    return call.func.id == "float" or (
        call.func.id == "int" and any(is_integer(module, one) for one in (value, _tensor(value)))
    )


def reduced_read(module: ModuleIndex, sync: ast.expr) -> DeviceRead | None:
    """``(prediction == label).cpu().sum().item()``: the number that the host makes of a copied tensor."""
    tensor, copies = reduced_copy(module, sync)
    read = device_read(module, tensor) if tensor is not None else None
    plain = read is not None and "#" not in module.syntax.text(read.whole)
    return replace(read, tensor=tensor, copies=copies) if read is not None and tensor is not None and plain else None


def reduced_copy(module: ModuleIndex, sync: ast.expr) -> tuple[ast.expr | None, tuple[ast.Call, ...]]:
    """The tensor of one number that a chain of methods makes of a copy, and the copies in it."""
    parents, top, reduced, copies = module.syntax.parents, sync, None, list[ast.Call]()
    if not isinstance(sync, ast.Call) or not (last_name(sync.func) == "cpu" or copies_to_host(sync)):
        return None, ()
    found = [sync]
    while isinstance(up := parents.get(top), ast.Attribute):
        call = parents.get(up)
        if not isinstance(call, ast.Call) or call.func is not up or call.args or call.keywords:
            break
        if up.attr in _REDUCES or (up.attr in _CASTS and reduced is not None):
            reduced, copies = call, [*found]
        elif up.attr == "cpu":
            found.append(call)
        elif up.attr not in _CASTS | {"detach"}:
            break
        top = call
    return reduced, tuple(copies)


def _tensor(node: ast.expr) -> ast.expr:
    """The tensor that an expression reads step by step."""
    while (inner := _receiver(node)) is not None:
        node = inner[1]
    return node


def _reads_number(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="item"), args=[]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="data"), slice=ast.Constant(value=0)):
            return True
    return False


def _receiver(node: ast.expr) -> tuple[ast.Attribute, ast.expr] | None:
    """(attribute, what it is taken of) where ``node`` is one step of reading a tensor."""
    match node:
        case ast.Subscript(value=ast.Attribute(attr="data") as attribute, slice=ast.Constant(value=0)):
            return attribute, attribute.value
        case ast.Call(func=ast.Attribute(attr=name) as attribute, args=[]) if name in _STRIPPED:
            return attribute, attribute.value
        case ast.Attribute(attr="data"):
            return node, node.value
    return None


def reads_of(project: Project, found: HostWait) -> list[DeviceRead] | Declined:
    """The numbers that a statement reads; Declined if it copies more than numbers."""
    reads = dict[ast.expr, DeviceRead]()
    for sync in found.syncs:
        read = device_read(found.module, sync.node) or reduced_read(found.module, sync.node)
        if read is None:
            return Declined("more is copied to the host than a number")
        if read.cut < 0 and _is_number_elsewhere(found.module, read.tensor):
            return Declined(f"`{ast.unparse(read.tensor)}` is a plain number in another branch, which has no `detach`")
        casts = isinstance(read.whole, ast.Call) and read.whole.args == [read.tensor]  # `float(loss)`, of numbers too
        if read.cut < 0 and casts and may_be_cast_number(project, found.module, read.tensor):
            return Declined(f"`{ast.unparse(read.tensor)}` may be a plain number, which has no `detach`")
        if is_of_numpy(project, found.module, read.whole, read.tensor):
            return Declined(f"`{ast.unparse(read.tensor)}` may be a number of NumPy, which has no `detach`")
        if read.copies or read.whole not in reads:
            reads[read.whole] = read
    wholes = set(reads)
    return [read for read in reads.values() if not wholes & set(found.module.syntax.ancestors(read.whole))]


def _is_number_elsewhere(module: ModuleIndex, tensor: ast.expr) -> bool:
    """Return whether some branch sets a variable to a plain number (``penalty = 0.0``), to which nothing is added."""
    if not isinstance(tensor, ast.Name):
        return False
    bindings = reaching(module, module.scope(tensor).lookup(tensor.id), tensor)
    if any(one.kind is BindingKind.AUGMENT or (one.value and _mentions(one.value, tensor.id)) for one in bindings):
        return False
    return any(not one.path and isinstance(one.value, ast.Constant) for one in bindings)


def _mentions(value: ast.expr, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in walk(value))


def without_cast(module: ModuleIndex, value: ast.expr, reads: list[DeviceRead]) -> tuple[ast.expr, tuple[Edit, ...]]:
    """Return the argument of a ``float(...)`` around a read (``float(norm.item() ** 2)``), and the edits that take the
    call away; any other expression as it is."""
    match value:
        case ast.Call(func=ast.Name(id="float"), args=[inner], keywords=[]) if (
            "\n" not in module.syntax.text(value)
            and value not in {read.whole for read in reads}
            and not isinstance(inner, ast.Starred)
        ):
            (start, end), (first, last) = module.syntax.offsets(value), module.syntax.offsets(inner)
            places = (module.syntax.span_at(start, first), module.syntax.span_at(last, end))
            return inner, tuple(Edit(module.path, place, "") for place in places)
    return value, ()


def host_tensors(found: HostWait) -> list[DeviceRead]:
    """Numbers of which a statement keeps a copy as a tensor of the host: ``(prediction == label).cpu().sum()``; none
    if it copies anything else."""
    module, reads = found.module, list[DeviceRead]()
    for sync in found.syncs:
        tensor, copies = reduced_copy(module, sync.node)
        if tensor is None or "#" in module.syntax.text(tensor) or isinstance(tensor, ast.Attribute):
            return []
        reads.append(DeviceRead(tensor, tensor, module.syntax.offsets(tensor)[1], copies))
    return reads


def host_losses(found: HostWait) -> list[DeviceRead]:
    """Losses of which a statement keeps a copy as a tensor of the host: ``loss.data.cpu()``; none if it may copy
    more."""
    return _reads_up_to("cpu", found, lambda _, tensor: is_about_loss(ast.unparse(tensor)))


def array_reads(found: HostWait) -> list[DeviceRead]:
    """Losses that a statement reads as arrays of NumPy: ``loss.data.cpu().numpy()``; none if it may copy more."""
    return _reads_up_to("numpy", found, _has_one_value)


def _reads_up_to(method: str, found: HostWait, is_one: Callable[[ModuleIndex, ast.expr], bool]) -> list[DeviceRead]:
    """Return what a statement reads by chains of methods that end with one; none if one of them may copy more than a
    number."""
    module, reads = found.module, dict[ast.expr, DeviceRead]()
    for sync in found.syncs:
        whole = sync.node
        while isinstance(up := module.syntax.parents.get(whole), ast.Attribute) and up.attr in _STRIPPED:
            call = module.syntax.parents.get(up)
            whole = call if isinstance(call, ast.Call) and call.func is up and not call.args else up
        tensor = _tensor(whole)
        last = isinstance(whole, ast.Call) and last_name(whole.func) == method and "#" not in module.syntax.text(whole)
        if not last or not is_one(module, tensor):
            return []
        reads[whole] = DeviceRead(whole, tensor, -1)
    return [*reads.values()]


def _has_one_value(module: ModuleIndex, tensor: ast.expr) -> bool:
    """Return whether a tensor is a loss that goes backward, or a sum or mean of all its values."""
    match tensor:
        case ast.Name(id=name):
            calls = module.calls_by_name.get("backward", [])
            return any(ast.unparse(call.func) == f"{name}.backward" and not call.args for call in calls)
        case ast.Call(func=ast.Attribute(attr="sum" | "mean" | "norm", value=owner), args=[], keywords=[]):
            return not (isinstance(owner, ast.Name) and owner.id == "torch")
    return False


def is_torch_tensor(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether there is proof that the value is a tensor of PyTorch, such as the loss that goes backward."""
    if isinstance(node, ast.Name) and any(
        isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == node.id and not call.args
        for call in module.calls_by_name.get("backward", [])
    ):
        return True
    return "torch" in module.packages and (
        is_integer(module, node) or project.fact(TensorLocations).is_tensor(module, node)
    )


def uses_other_library(module: ModuleIndex) -> bool:
    """Return whether the module may hold arrays of another library, which have ``.item()`` too."""
    if "torch" not in module.syntax.source.text:
        return True
    imports: Iterator[ast.Import | ast.ImportFrom] = module.syntax.of(ast.Import, ast.ImportFrom)
    return bool(module.packages & _OTHER_LIBRARIES) and any(
        alias.name == "*" or (alias.asname or alias.name.partition(".")[0]) in module.named
        for node in imports
        for alias in node.names
        if (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0] in _OTHER_LIBRARIES
    )


def torch_of(module: ModuleIndex) -> str | None:
    """The name under which a module imports ``torch``."""
    bound = ((name, one.target) for name, bindings in module.top.bindings.items() for one in bindings)
    return next((name for name, target in bound if target == "torch"), None)


def is_plain_number(module: ModuleIndex, node: ast.expr, depth: int = 0) -> bool:
    """Return whether a factor is a number of the host: a size, a length, a constant."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float)
        case ast.Call(func=func):
            return last_name(func) in ("size", "len", "numel", "nelement", "get_world_size")
        case ast.Subscript(value=ast.Attribute(attr="shape")) | ast.Attribute(attr="num_graphs" | "batch_size"):
            return True
        case ast.BinOp(left=left, right=right):
            return is_plain_number(module, left, depth) and is_plain_number(module, right, depth)
        case ast.Name() if depth < 2:
            bound = only_value(module, node)
            return counts_steps(module, node) or (bound is not None and is_plain_number(module, bound, depth + 1))
    return False


def counts_steps(module: ModuleIndex, node: ast.Name) -> bool:
    """The first variable of a loop over ``enumerate(...)``, or that of one over ``range(...)``."""
    bindings = reaching(module, module.scope(node).lookup(node.id), node)
    return bool(bindings) and all(
        binding.kind is BindingKind.LOOP and _is_counted_by(binding.node, node.id) for binding in bindings
    )


def _is_counted_by(loop: ast.AST, name: str) -> bool:
    match loop:
        case ast.For(target=ast.Tuple(elts=[ast.Name(id=first), _]), iter=ast.Call(func=ast.Name(id="enumerate"))):
            return first == name
        case ast.For(target=ast.Name(id=first), iter=ast.Call(func=ast.Name(id="range" | "trange"))):
            return first == name
    return False
