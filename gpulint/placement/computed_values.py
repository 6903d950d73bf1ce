"""Values that are seen to come from tensors: of a forward pass, a loss, gradients, or what is moved to a GPU."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.expressions import element
from gpulint.placement.host_results import copies_to_host
from gpulint.placement.tensor_location import TensorLocations
from gpulint.query import cyclic, query
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_LOSS = regex.compile(r"(^|_|[a-z])loss(es)?(_|\d|$)|^loss|(^|_)logits", re.IGNORECASE)
"""Names of what a model computes, or of a table of that."""
_HOST = frozenset(
    "item tolist numpy cpu get_scale shape size dim numel nelement ndim device dtype type stride get_device".split()
)
"""Methods and attributes whose results are no tensors, or in host memory."""
_BUILT_IN = frozenset("float int str len bool isinstance range open".split())
"""Functions of Python whose results are no tensors."""
_PARTS = frozenset({"grad", "loss", "logits"})
_WEIGHTS = frozenset({"parameters", "named_parameters", "buffers", "named_buffers"})
_FORWARD = frozenset({"forward", "__call__"})
_MODULES = (".nn.Module", "LightningModule", ".nn.modules.loss._Loss", ".nn.Sequential")
MAX_SITES = 4
"""Most calls of a function that are read for what they hand to it."""


class ComputedValues:
    """Values of one project that are seen to come from tensors."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db
        self._near = TensorLocations(project)
        self._handed = TensorLocations(project, callers=True)

    def holds(self, module: ModuleIndex, node: ast.expr) -> bool:
        """Return whether anything that a value is computed of is seen to be a tensor of a model."""
        return self._is_computed(module, node)

    @cyclic(False)
    def _is_computed(self, module: ModuleIndex, node: ast.expr) -> bool:
        match node:
            case ast.Name():
                bindings = reaching(module, module.scope(node).lookup(node.id), node)
                return any(self._is_bound(module, node, one) for one in bindings) or self._is_tensor(module, node)
            case ast.Attribute(value=base, attr=attr):
                if attr in _HOST:
                    return False
                return attr in _PARTS or _LOSS.search(attr) is not None or self._of_attribute(module, node, base)
            case ast.Subscript(value=base) | ast.Starred(value=base) | ast.UnaryOp(operand=base):
                return self._is_computed(module, base)
            case ast.Call():
                return self._is_result(module, node)
            case ast.BinOp(left=left, right=right):
                return self._is_computed(module, left) or self._is_computed(module, right)
            case ast.Compare(left=left, comparators=others):
                return any(self._is_computed(module, part) for part in (left, *others))
            case ast.BoolOp(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                return any(self._is_computed(module, part) for part in parts)
            case ast.Dict(values=parts):
                return any(self._is_computed(module, part) for part in parts)
            case ast.IfExp(body=body, orelse=orelse):
                return self._is_computed(module, body) or self._is_computed(module, orelse)
            case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part) | ast.DictComp(value=part):
                return self._is_computed(module, part)
        return False

    def _is_tensor(self, module: ModuleIndex, node: ast.expr) -> bool:
        return self._near.is_tensor(module, node) or self._handed.is_tensor(module, node)

    def _of_attribute(self, module: ModuleIndex, node: ast.Attribute, base: ast.expr) -> bool:
        """``self.scores``, by what it is set to; ``outputs.last_hidden_state``, by what it is of."""
        if isinstance(base, ast.Name) and base.id == "self":
            stored = self._project.fact(Resolver).points_to(module, node)
            return any(isinstance(ref.node, ast.expr) and self._is_computed(ref.module, ref.node) for ref in stored)
        return self._is_computed(module, base)

    def _is_bound(self, module: ModuleIndex, node: ast.Name, binding: Binding) -> bool:
        if binding.kind is BindingKind.PARAMETER:
            return self._is_handed(module, node.id, binding)
        if binding.kind is BindingKind.AUGMENT and isinstance(binding.node, ast.AugAssign):
            return binding.node.target is not node and self._is_computed(module, binding.node.value)
        if binding.value is None or binding.value is node:
            return False
        value, _ = element(binding.value, binding.path)
        if isinstance(value, ast.List) and not value.elts:
            added = self._appended(module).get((module.function(value), node.id), ())
            return any(self._is_computed(module, part) for part in added)
        return self._is_computed(module, value)

    @query
    def _appended(self, module: ModuleIndex) -> dict[tuple[ast.AST | None, str], list[ast.expr]]:
        """Return what is appended to lists, by the function and the name."""
        table: dict[tuple[ast.AST | None, str], list[ast.expr]] = {}
        for call in module.calls_by_name.get("append", ()):
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name)), args=[added]):
                    table.setdefault((module.function(call), name), []).append(added)
        return table

    def _is_handed(self, module: ModuleIndex, name: str, binding: Binding) -> bool:
        """Return whether a parameter is a tensor: one of a loss by its name, one of a forward pass, or by what a call
        hands in; where no call is seen, by its annotation, or as one of a module (``torch.nn.Module``)."""
        function = binding.scope.node
        if not isinstance(function, FUNCTIONS) or not isinstance(binding.node, ast.arg) or name == "self":
            return False
        of_module = self._is_of_module(module, function)
        if _LOSS.search(name) or (of_module and function.name in _FORWARD):
            return True
        sites = self._project.fact(Resolver).first_sites(module, function, MAX_SITES)
        handed = [
            (site.module, argument_of(function, site.node, name)) for site in sites if isinstance(site.node, ast.Call)
        ]
        if handed:
            return any(value is not None and self._is_computed(where, value) for where, value in handed)
        noted = binding.node.annotation
        return of_module if noted is None else "Tensor" in ast.unparse(noted)

    @query
    def _is_of_module(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether code is of a class that inherits from ``torch.nn.Module``."""
        owner = module.class_of(node)
        if owner is None:
            return False
        return any(base.endswith(_MODULES) for base in self._project.fact(Resolver).base_names(module, owner))

    def _is_result(self, module: ModuleIndex, call: ast.Call) -> bool:
        func, name = call.func, last_name(call.func)
        if name in _HOST or (isinstance(func, ast.Name) and name in _BUILT_IN) or copies_to_host(call):
            return False
        move = self._project.fact(DeviceTransfers).transfer_at(module, call)
        if (
            name in _WEIGHTS
            or self._is_tensor(module, call)
            or _LOSS.search(name)
            or (move is not None and move.to_gpu)
        ):
            return True
        if isinstance(func, ast.Attribute) and self._is_computed(module, func.value):
            return True
        resolver = self._project.fact(Resolver)
        callees = resolver.callees(module, call)
        if callees:
            return any(self._returns(one) for one in callees)
        if isinstance(func, ast.Attribute) and not resolver.call_names(module, call):
            inner = isinstance(func.value, ast.Name) and func.value.id == "self" and self._is_of_module(module, call)
            if not inner:
                return False  # a method of something unknown
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        return any(self._is_computed(module, part) for part in given)

    def _returns(self, callee: NodeRef) -> bool:
        if not isinstance(callee.node, ast.FunctionDef):
            return False
        returned = self._project.fact(Resolver).returns(callee.node)
        return any(self._is_computed(callee.module, value) for value in returned)
