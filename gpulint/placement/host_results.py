"""Calls whose results are in host memory, for what they are given is."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_ARRAY = regex.compile(r"['\"]?(np\.|numpy\.|npt\.)?(ndarray|NDArray(\[.*\])?|ArrayLike)['\"]?")
_MOVES = frozenset({"to", "cuda"})
_NUMBERS = frozenset({"item", "tolist", "size", "dim", "numel"})
_REDUCTIONS = frozenset({"sum", "mean", "max", "min", "norm", "all", "any", "argmax", "argmin", "std", "prod"})
"""Methods that make a number of an array, unless they are told an axis."""
_CREATORS = frozenset(
    "torch.empty torch.zeros torch.ones torch.full torch.tensor torch.as_tensor torch.from_numpy torch.rand "
    "torch.randn torch.randint torch.randperm torch.arange torch.LongTensor torch.FloatTensor torch.IntTensor "
    "torch.BoolTensor torch.Tensor".split()
)
_MAPS = frozenset({"tree_map", "map_structure", "apply_to_collection", "recursive_apply"})
_RECEIVES = {
    "get": regex.compile(r"^ray$|(^|_)(q|queue)$", re.IGNORECASE),
    "result": regex.compile(r"^f$|fut(ure)?s?(_|$)|(^|_)(job|task|handle)$", re.IGNORECASE),
    "recv": regex.compile(r"conn|pipe|sock|remote", re.IGNORECASE),
}
"""Methods that give what another process or thread has sent, with the names of their owners."""
_OF_LENGTH = frozenset("torch.arange torch.linspace torch.randperm".split())
"""What makes tensors of one dimension, whatever it is told."""
_OF_SHAPE = frozenset("torch.empty torch.zeros torch.ones torch.rand torch.randn".split())
_OF_MODELS = ("__init__", "__call__", "forward")
_OPERANDS = ("input", "log_probs", "tensors", "anchor", "input1", "x1", "x")
"""Names of the first operands of PyTorch's functions, losses and layers. The rest has to be in the same place, except
for lengths and targets that a loss reads on the host."""
_SPREADS = regex.compile(r"torch\.nn\.(DataParallel$|parallel\.|utils\.)")
"""What moves its operands to GPUs itself."""


def runs_itself(project: Project, module: ModuleIndex, func: ast.expr) -> bool:
    """``self(x)`` in a module."""
    if not isinstance(func, ast.Name) or func.id != "self" or (owner := module.class_of(func)) is None:
        return False
    return any(base.endswith("Module") for base in project.fact(Resolver).base_names(module, owner))


def is_given_as_array(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a name is a parameter that is annotated as an array of NumPy, and nothing else."""
    if not isinstance(node, ast.Name):
        return False
    bindings = reaching(module, module.scope(node).lookup(node.id), node)
    return bool(bindings) and all(map(_is_array, bindings))


_HOST_TYPE = regex.compile(r"""['"]?torch\.(Float|Double|Half|Long|Int|Short|Byte|Bool)Tensor['"]?""")
"""Types of tensors of the host; those of the GPU are in ``torch.cuda``."""


def _is_array(binding: Binding) -> bool:
    annotation = getattr(binding.node, "annotation", None)
    return (
        binding.kind is BindingKind.PARAMETER
        and annotation is not None
        and _ARRAY.fullmatch(ast.unparse(annotation)) is not None
    )


def is_array_on_host(module: ModuleIndex, node: ast.expr, is_array: Callable[[ModuleIndex, ast.expr], bool]) -> bool:
    """Return whether a value is a copy in host memory, or what methods and operators make of an array there
    (``x.cpu().numpy().max(axis=1)``). The maximum of a whole array is a number."""
    match node:
        case ast.Call(func=ast.Attribute(attr="numpy" | "cpu")):
            return True
        case ast.Call(func=ast.Attribute(value=base, attr=name), args=args, keywords=keywords):
            number = name in _NUMBERS or (name in _REDUCTIONS and not args and not keywords)
            return copies_to_host(node) or (name not in _MOVES and not number and is_array(module, base))
        case ast.Subscript(value=base, slice=index):
            return not _is_one(module, index) and is_array(module, base)
        case ast.UnaryOp(op=ast.Invert() | ast.USub(), operand=inner):
            return is_array(module, inner)
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            arrays = [isinstance(part, ast.Constant) or is_array(module, part) for part in (left, right)]
            return all(arrays) and not (isinstance(left, ast.Constant) and isinstance(right, ast.Constant))
        case ast.Name(id=name):
            bindings = reaching(module, module.scope(node).lookup(name), node)
            return bool(bindings) and all(
                one.kind is BindingKind.ASSIGN
                and not one.path
                and one.value is not None
                and one.value is not node
                and is_array(module, one.value)
                for one in bindings
            )
    return False


def _is_one(module: ModuleIndex, index: ast.expr) -> bool:
    """Return whether an index picks one element, which may be a number: a constant, a counter of loops."""
    match index:
        case ast.Tuple(elts=parts):
            return all(_is_one(module, part) for part in parts)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _is_one(module, inner)
        case ast.BinOp(left=left, right=right):
            return _is_one(module, left) and _is_one(module, right)
        case ast.Name(id=name):
            bindings = reaching(module, module.scope(index).lookup(name), index)
            return bool(bindings) and all(one.kind is BindingKind.LOOP for one in bindings)
    return isinstance(index, ast.Constant)


def copies_to_host(call: ast.Call) -> bool:
    """``x.to("cpu")``, ``x.to(torch.device("cpu"))``, ``x.to(device="cpu")``"""
    device = target_device(call)
    return device is not None and is_cpu(device)


def target_device(call: ast.Call) -> ast.expr | None:
    """``device`` of ``x.to(device)``"""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "to":
        return None
    named = (keyword.value for keyword in call.keywords if keyword.arg == "device")
    return call.args[0] if call.args else next(named, None)


def names_device(call: ast.Call) -> bool:
    """``torch.tensor(0.0, device=device)``, which need not be the host"""
    device = keyword_value(call, "device")
    return device is not None and not is_cpu(device)


def is_cpu(device: ast.AST) -> bool:
    """``"cpu"``, ``torch.device("cpu")``"""
    match device:
        case ast.Constant(value="cpu"):
            return True
        case ast.Call(func=func, args=[ast.Constant(value="cpu")]):
            return last_name(func) == "device"
    return False


def casts_to_host(call: ast.Call) -> bool:
    """``x.type(torch.FloatTensor)``, which is a copy of another type"""
    return last_name(call.func) == "type" and any(_HOST_TYPE.fullmatch(ast.unparse(one)) for one in call.args[:1])


def leaves_gpu(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """``x.to(CPU)``, where the name stands for the host"""
    device = target_device(call)
    if not isinstance(device, ast.Name | ast.Attribute):
        return device is not None and is_cpu(device)
    found = project.fact(Resolver).points_to(module, device)
    return bool(found) and all(is_cpu(one.node) for one in found)


def queues_copy(call: ast.Call) -> bool:
    """``x.to("cpu", non_blocking=True)``, which PyTorch puts into pinned memory without waiting"""
    return last_name(call.func) == "to" and any(
        keyword.arg == "non_blocking" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in call.keywords
    )


def comes_to_host(
    project: Project, module: ModuleIndex, call: ast.Call, is_host: Callable[[ModuleIndex, ast.expr], bool]
) -> bool:
    """``tree_map(lambda t: t.cpu(), losses)``; ``ray.get(result)``, ``future.result()``, ``queue.get()``, which another
    process most likely sends through host memory"""
    name = last_name(call.func)
    if name in _MAPS:
        return any(isinstance(part, ast.Lambda) and is_host(module, part.body) for part in call.args)
    if not isinstance(call.func, ast.Attribute) or name not in _RECEIVES:
        return False
    return bool(_RECEIVES[name].search(last_name(call.func.value)))


def first_operand(project: Project, module: ModuleIndex, call: ast.Call) -> ast.expr | None:
    """Return the operand that tells where the result of a function, a loss or a layer of PyTorch is: ``x`` of
    ``F.ctc_loss(log_probs=x, targets=y)`` and of ``criterion(x, y)`` after ``criterion = nn.CTCLoss()``."""
    if names_device(call):
        return None
    resolver = project.fact(Resolver)
    names = resolver.names(module, call.func)
    if {name.partition(".")[0] for name in names} != {"torch"} and not _is_layer(project, module, call.func):
        return None
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    # Numbers, and the equation of `einsum`, go with tensors anywhere.
    given = [*(one for one in call.args if not isinstance(one, ast.Constant)), *call.args]
    return given[0] if given else next((named[name] for name in _OPERANDS if name in named), None)


def _is_layer(project: Project, module: ModuleIndex, func: ast.expr) -> bool:
    """Return whether an object is made by a class of ``torch.nn`` alone, such as a loss."""
    resolver = project.fact(Resolver)
    made = resolver.points_to(module, func)
    names = [resolver.call_names(one.module, one.node) for one in made if isinstance(one.node, ast.Call)]
    return (
        len(names) == len(made) > 0
        and all(found and all(name.startswith("torch.nn.") for name in found) for found in names)
        and not any(_SPREADS.match(name) for found in names for name in found)
    )


def makes_tensor(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """``torch.tensor(lengths)``, ``torch.zeros(n, device=device)``; ``torch.tensor(x.cuda())`` stays where ``x`` is"""
    match call.args:
        case [ast.Call(func=ast.Attribute(attr=name)), *_] if name in _MOVES:
            return False
    return bool(project.fact(Resolver).call_names(module, call) & _CREATORS)


def makes_array_on_host(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """``torch.arange(n, device="cpu")``. A tensor without dimensions may be computed with on the GPU as well."""
    device = keyword_value(call, "device")
    if device is None or not is_cpu(device):
        return False
    names = project.fact(Resolver).call_names(module, call)
    shaped = bool(call.args) and not (isinstance(call.args[0], ast.Tuple | ast.List) and not call.args[0].elts)
    return bool(names & _OF_LENGTH) or (shaped and bool(names & _OF_SHAPE))


def is_made(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether all that a value may be is made by calls such as ``torch.tensor(lengths)``."""
    made = project.fact(Resolver).points_to(module, node)
    return bool(made) and all(
        not one.path and isinstance(one.node, ast.Call) and makes_tensor(project, one.module, one.node) for one in made
    )


def moves_model(module: ModuleIndex, call: ast.Call) -> bool:
    """``reference.cpu()`` as a statement: of a model, for what it returns of a tensor is lost."""
    return last_name(call.func) in ("cpu", "to") and isinstance(module.syntax.parents.get(call), ast.Expr)


def gets_host(
    project: Project, module: ModuleIndex, call: ast.Call, is_host: Callable[[ModuleIndex, ast.expr], bool]
) -> bool:
    """Return whether a plain function of the tree gets only values in host memory."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not given or not isinstance(call.func, ast.Name):
        return False
    resolver = project.fact(Resolver)
    callees = resolver.callees(module, call)
    if resolver.classes_of(module, call):
        return False  # an object, whose methods may well compute on a GPU
    plain = all(isinstance(one.node, FUNCTIONS) and one.node.name not in _OF_MODELS for one in callees)
    return bool(callees) and plain and all(is_host(module, part) for part in given)


def returns_host(
    project: Project, module: ModuleIndex, call: ast.Call, is_host: Callable[[ModuleIndex, ast.expr], bool]
) -> bool:
    """Return whether a function of the tree returns only what is in host memory."""
    resolver = project.fact(Resolver)
    for callee in resolver.callees(module, call):
        if isinstance(callee.node, ast.FunctionDef):
            returned = resolver.returns(callee.node)
            values = [part for value in returned for part in (value.elts if isinstance(value, ast.List) else [value])]
            if values and all(is_host(callee.module, value) for value in values):
                return True
    return False


def is_kept_on_host(
    project: Project,
    module: ModuleIndex,
    node: ast.Attribute | ast.Subscript,
    is_host: Callable[[ModuleIndex, ast.expr], bool],
) -> bool:
    """Return whether an attribute (``meter.sum``), a property or an entry (``state["step"]``) is only ever given values
    in host memory. What is added to it in place leaves it there."""
    match node:
        case ast.Attribute():
            found = project.fact(Resolver).points_to(module, node)
            values = [(ref.module, ref.node) for ref in found if not isinstance(ref.node, ast.AugAssign)]
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)):
            stored = module.stored_under(name, key)
            values = [
                (module, value)
                for _, value, home in stored
                if value is not None and not isinstance(home, ast.AugAssign)
            ]
            if not stored:  # an entry of what a function returns
                values = [(ref.module, ref.node) for ref in project.fact(Resolver).points_to(module, node)]
        case _:
            return _collects(module, node, is_host)
    return _collects(module, node, is_host) or (
        bool(values)
        and all(isinstance(value, ast.expr) and value is not node and is_host(where, value) for where, value in values)
    )


def is_passed_from_host(
    project: Project, module: ModuleIndex, parameter: ast.Name, is_host: Callable[[ModuleIndex, ast.expr], bool]
) -> bool:
    """Return whether all callers pass a number that they have read already (``log(step, loss.item())``)."""
    found = project.fact(Resolver).points_to(module, parameter)
    passed = [(ref.module, ref.node) for ref in found if isinstance(ref.node, ast.expr)]
    return bool(passed) and all(is_host(where, node) for where, node in passed)


def _collects(
    module: ModuleIndex,
    node: ast.Attribute | ast.Subscript,
    is_host: Callable[[ModuleIndex, ast.expr], bool],
) -> bool:
    """Return whether only values in host memory are appended to a list (``self.losses["d"].append(loss.item())``)."""
    name = ast.unparse(node)
    added = [
        call.args[0]
        for call in module.calls_by_name.get("append", ())
        if isinstance(call.func, ast.Attribute) and len(call.args) == 1 and ast.unparse(call.func.value) == name
    ]
    return bool(added) and all(is_host(module, value) for value in added)


def framework_steps(module: ModuleIndex) -> bool:
    """Return whether Accelerate or Fabric propagates the gradients here, so that it places batches as well."""
    return any(
        isinstance(call.func, ast.Attribute) and last_name(call.func.value) in ("fabric", "accelerator")
        for call in module.calls_by_name.get("backward", [])
    )


def items_of(source: ast.expr) -> ast.expr | None:
    """``table`` of ``table.items()``, through whose pairs a loop goes."""
    match source:
        case ast.Call(func=ast.Attribute(value=table, attr="items"), args=[]):
            return table
    return None
