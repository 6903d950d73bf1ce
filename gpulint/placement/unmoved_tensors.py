"""What of a model stays in host memory when a trainer moves the model to a GPU: tensors that are plain attributes, not
buffers, and arrays that are made of tensors without a copy to the host."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.finding import Place
from gpulint.placement.computed_values import ComputedValues
from gpulint.placement.host_values import HostValues
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_LIGHTNING = ("LightningModule",)
_MODELS = (*_LIGHTNING, "nn.Module")
_MAKES = frozenset(
    "tensor as_tensor from_numpy arange linspace logspace zeros ones full eye empty rand randn randint randperm "
    "hann_window hamming_window Tensor FloatTensor LongTensor".split()
)
"""Functions of PyTorch that make a tensor in host memory, unless they are told a device."""
_HELD = frozenset({"Parameter", "Buffer", "UninitializedParameter"})
"""What a model moves."""
_NO_TENSOR = frozenset("item tolist numpy size dim numel to cuda type_as shape device dtype ndim is_available".split())
_MOVES = regex.compile(r"\.(to|cuda|cpu|type_as|item|tolist|numpy)\(|\bdevice\s*=")
"""What moves a tensor where it is used or set."""
_ON_HOST = regex.compile(r"\.(cpu|numpy)\(|\.to\(\s*(device\s*=\s*)?(['\"]cpu|torch\.device\(['\"]cpu)")
_MOVERS = frozenset({"_apply", "to", "cuda"})
"""Methods with which a model moves its plain attributes itself."""
_STEPS = 4
"""Most expressions between an attribute and what makes its tensor."""


@query
def first_unmoved(project: Project, module: ModuleIndex) -> Place | None:
    """Return what fails on a GPU in the models of a module, of which a trainer moves parameters and buffers alone."""
    for owner in module.classes:
        bases = project.fact(Resolver).base_names(module, owner)
        if not any(name.endswith(_MODELS) for name in bases):
            continue
        found = next(_plain_tensors(project, module, owner), None)
        if found is None and any(name.endswith(_LIGHTNING) for name in bases):
            found = next(_arrays(project, module, owner), None)
        if found is not None:
            return found
    return None


def _plain_tensors(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> Iterator[Place]:
    """Yield tensors of a class that it computes with beside those of a GPU, and that are neither parameters nor
    buffers."""
    if any(isinstance(one, FUNCTIONS) and one.name in _MOVERS for one in owner.body):
        return
    registered = _registered(module, owner)
    used = dict[str, list[ast.Attribute]]()
    for part in module.syntax.of(ast.Attribute):
        if _is_own(part) and isinstance(part.ctx, ast.Load) and module.class_of(part) is owner:
            used.setdefault(part.attr, []).append(part)
    for (of, name), bindings in module.attributes.items():
        if of is not owner or name in registered:
            continue
        values = [one.value for one in bindings if one.value is not None and not one.path]
        if any(_MOVES.search(ast.unparse(value)) for value in values):
            continue
        setters = {module.function(one.node) for one in bindings}
        uses = [use for use in used.get(name, ()) if module.function(use) not in setters]
        if any(_is_tensor(project, module, owner, value) for value in values) and any(
            _meets_others(module, use) for use in uses
        ):
            text = f"`self.{name}` is no buffer, and stays in host memory"
            yield Place(module.path, module.syntax.span(bindings[0].node), text)  # type: ignore[arg-type]


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


@query
def _registered(module: ModuleIndex, owner: ast.ClassDef) -> frozenset[str]:
    """Return the names of a class that are buffers or parameters, as calls say."""
    calls = (*module.calls_by_name.get("register_buffer", ()), *module.calls_by_name.get("register_parameter", ()))
    return frozenset(
        name.value
        for call in calls
        for name in (*call.args[:1], *(word.value for word in call.keywords if word.arg == "name"))
        if isinstance(name, ast.Constant) and isinstance(name.value, str) and module.class_of(call) is owner
    )


def _is_tensor(
    project: Project, module: ModuleIndex, owner: ast.ClassDef, node: ast.expr, steps: int = _STEPS, own: bool = False
) -> bool:
    """Return whether a value is a tensor in host memory: PyTorch makes it there, or it is computed of the model's own
    tensors, which a constructor computes with before anything is moved. ``own`` counts parameters as well."""

    def holds(part: ast.expr) -> bool:
        return steps > 0 and _is_tensor(project, module, owner, part, steps - 1, own=True)

    match node:
        case ast.BinOp(left=left, right=right):
            return holds(left) or holds(right)
        case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner):
            return holds(inner)
        case ast.Name(id=name):
            bound = reaching(module, module.scope(node).lookup(name), node)
            return any(one.value is not None and not one.path and holds(one.value) for one in bound)
        case ast.Attribute(attr=name) if _is_own(node):
            values = [one.value for one in module.attributes.get((owner, name), ()) if one.value is not None]
            return name in _registered(module, owner) or any(map(holds, values))
        case ast.Call(func=func) if last_name(func) in _HELD:
            return own
        case ast.Call(func=func, args=args):
            return _makes_tensor(project, module, node) or (
                isinstance(func, ast.Attribute)
                and last_name(func) not in _NO_TENSOR
                and ((_is_of_torch(project, module, node) and any(map(holds, args[:1]))) or holds(func.value))
            )
    return False


def _is_of_torch(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    names = project.fact(Resolver).call_names(module, call)
    return any(name.startswith("torch.") and not name.startswith("torch.nn.modules") for name in names)


def _makes_tensor(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call makes a tensor with an axis; one without may meet tensors of a GPU."""
    name, resolver = last_name(call.func), project.fact(Resolver)
    if name in _MAKES and _is_of_torch(project, module, call):
        return not (name in ("tensor", "as_tensor") and call.args and isinstance(call.args[0], ast.Constant))
    return any(
        isinstance(value, ast.Call) and last_name(value.func) in _MAKES and _is_of_torch(project, one.module, value)
        for one in resolver.callees(module, call)
        if isinstance(one.node, FUNCTIONS)
        for value in resolver.returns(one.node)
    )


def _meets_others(module: ModuleIndex, use: ast.Attribute) -> bool:
    """Return whether a tensor is indexed by, or computed with, what the step has."""
    ups = list[ast.AST]()
    for up in module.syntax.ancestors(use):
        if isinstance(up, ast.stmt):
            break
        ups.append(up)
    outermost = ups[-1] if ups else use
    if isinstance(outermost, ast.expr) and _MOVES.search(ast.unparse(outermost)):
        return False
    match ups[0] if ups else None:
        case ast.Subscript(value=value, slice=index) if value is use:
            return not isinstance(index, ast.Constant | ast.Slice)
        case ast.BinOp():
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "F"))):
            return True
        case ast.Attribute(attr=name):
            return name not in _NO_TENSOR and any(isinstance(up, ast.BinOp) for up in ups)
    return False


def _arrays(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> Iterator[Place]:
    """Yield ``loss.detach().numpy()``, which no tensor of a GPU has."""
    for call in module.calls_by_name.get("numpy", ()):
        if not isinstance(call.func, ast.Attribute) or call.args or call.keywords or module.class_of(call) is not owner:
            continue
        tensor = call.func.value
        text = ast.unparse(tensor)
        is_tensor = ".detach()" in text or project.fact(ComputedValues).holds(module, tensor)
        if is_tensor and not _ON_HOST.search(text) and not project.fact(HostValues).holds(module, tensor):
            yield Place(module.path, module.syntax.span(call), "tensors of a GPU have no `.numpy()` without `.cpu()`")
