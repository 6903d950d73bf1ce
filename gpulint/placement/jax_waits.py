"""Places where the host waits for arrays that JAX computes: ``float(loss)``, ``jax.device_get``, ``np.asarray(x)``."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.query import cyclic
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

COMPILES = frozenset(
    {"jax.jit", "jax.pmap", "equinox.filter_jit", "equinox.filter_pmap", "flax.nnx.jit", "flax.nnx.pmap"}
)
"""What makes a compiled function of a function."""
_GRADIENTS = frozenset(
    {"jax.value_and_grad", "jax.grad", "flax.nnx.value_and_grad", "equinox.filter_value_and_grad", "flax.nnx.grad"}
)
_TRACES = ("jax.", "equinox.", "flax.", "optax.", "haiku.")
"""Libraries whose functions trace the functions that they are given, or compute on arrays."""
_READS = frozenset({"jax.device_get", "numpy.asarray", "numpy.array", "numpy.mean", "numpy.isnan", "numpy.float32"})
_BARRIERS = frozenset({"jax.block_until_ready"})
WAITING = frozenset(
    {name.rpartition(".")[2] for name in _READS | _BARRIERS} | {"item", "tolist", "float", "int", "bool"}
)
"""Last names of what may wait, besides what makes text of arrays."""
_NUMBERS = frozenset({"float", "int", "bool"})
_METHODS = frozenset({"item", "tolist"})
_TESTS = frozenset({"jax.numpy.isnan", "jax.numpy.isinf", "jax.numpy.isfinite", "jax.numpy.any", "jax.numpy.all"})
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_KNOWN = frozenset({"shape", "dtype", "ndim", "size", "sharding", "step"})
"""Attributes that the host knows, or that are counted rather than computed."""


class JaxWaits:
    """Waits for JAX in the modules of one project."""

    def __init__(self, project: Project) -> None:
        self._project, self.db = project, project.db

    def applies(self, module: ModuleIndex) -> bool:
        """Return whether a module computes with JAX."""
        return "jax" in module.packages

    def waits_there(self, module: ModuleIndex, sync: SyncPoint) -> bool:
        """Return whether a wait is one for JAX, by what is read, or as the module uses no other library for tensors."""
        if not self.applies(module):
            return False
        if "torch" not in module.packages:
            return True
        if sync.value is not None:
            return self._is_value(module, sync.value)
        return isinstance(sync.node, ast.Call) and (
            last_name(sync.node.func) == "block_until_ready" or bool(self._names(module, sync.node) & _BARRIERS)
        )

    def of_call(self, module: ModuleIndex, call: ast.Call, shown: Iterable[ast.expr]) -> SyncPoint | None:
        """The wait of a call, which may make text of what is ``shown``; None if there is none, or it is unknown."""
        read, kind = self._read(module, call)
        if read is None:
            read, kind = next((part for part in shown if self._is_value(module, part)), None), SyncKind.FORMAT
        if read is None or not self._is_value(module, read) or self.is_traced(module, call):
            return None
        return SyncPoint(call, kind, None if kind is SyncKind.BARRIER else read)

    def of_test(self, module: ModuleIndex, test: ast.expr) -> SyncPoint | None:
        """``if jnp.isnan(loss)``, ``if loss < best``: the branch needs the value."""
        inner = test.operand if isinstance(test, ast.UnaryOp) else test
        for part in inner.values if isinstance(inner, ast.BoolOp) else [inner]:
            bare = part.operand if isinstance(part, ast.UnaryOp) else part
            sides = list[ast.expr]()
            if isinstance(bare, ast.Compare) and isinstance(bare.ops[0], _ORDERS):
                sides = [bare.left, bare.comparators[0]]
            elif isinstance(bare, ast.Call) and self._names(module, bare) & _TESTS:
                sides = bare.args[:1]
            for side in sides:
                if self._is_value(module, side) and not self.is_traced(module, test):
                    return SyncPoint(bare, SyncKind.TEST, side)
        return None

    def _read(self, module: ModuleIndex, call: ast.Call) -> tuple[ast.expr | None, SyncKind]:
        """Return what a call reads from the GPU, by its form."""
        func = call.func
        if isinstance(func, ast.Name) and func.id in _NUMBERS and len(call.args) == 1:
            return call.args[0], SyncKind.READ
        if isinstance(func, ast.Attribute):
            if func.attr in _METHODS and not call.args:
                return func.value, SyncKind.READ
            if func.attr == "block_until_ready" and not call.args:
                return func.value, SyncKind.BARRIER
        if call.args and (names := self._names(module, call)) & (_READS | _BARRIERS):
            return call.args[0], SyncKind.BARRIER if names & _BARRIERS else SyncKind.READ
        return None, SyncKind.READ

    def _names(self, module: ModuleIndex, call: ast.Call) -> frozenset[str] | set[str]:
        return self._project.fact(Resolver).call_names(module, call)

    @cyclic(False)
    def _is_value(self, module: ModuleIndex, node: ast.expr) -> bool:
        """Return whether an expression is an array that a compiled function or a gradient gives, or is computed of
        one."""
        match node:
            case ast.Name():
                values = [_given(binding) for binding in reaching(module, module.scope(node).lookup(node.id), node)]
                known = [value for value in values if not isinstance(value, ast.Constant)]
                return bool(known) and all(
                    value is not None and value is not node and self._is_value(module, value) for value in known
                )
            case ast.Attribute(value=base, attr=attr):
                return attr not in _KNOWN and self._is_value(module, base)
            case ast.Subscript(value=base):
                return self._is_value(module, base)
            case ast.BinOp(left=left, right=right):
                return self._is_value(module, left) or self._is_value(module, right)
            case ast.UnaryOp(operand=inner):
                return self._is_value(module, inner)
            case ast.Call(func=func):
                if self._read(module, node)[0] is not None and last_name(func) != "block_until_ready":
                    return False
                if self._computes(module, node):
                    return True
                if any(name.startswith(_TRACES) for name in self._names(module, node)):
                    return any(self._is_value(module, part) for part in node.args)
                return isinstance(func, ast.Attribute) and self._is_value(module, func.value)
        return False

    def _computes(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether a call runs a function that JAX has compiled, or that gives gradients."""
        return any(
            isinstance(ref.node, FUNCTIONS) and self._is_compiled(ref) for ref in self._functions(module, call)
        ) or any(self._makes(where, value) for where, value in self._made(module, call.func))

    def _functions(self, module: ModuleIndex, call: ast.Call) -> list[NodeRef]:
        return self._project.fact(Resolver).callees(module, call)

    def _made(self, module: ModuleIndex, func: ast.expr) -> Iterator[tuple[ModuleIndex, ast.expr]]:
        """Yield what the names of a function that is called are bound to: ``step = jax.jit(train_step)``."""
        resolver = self._project.fact(Resolver)
        match func:
            case ast.Call():
                yield module, func
            case ast.Name():
                for binding in module.scope(func).lookup(func.id):
                    if binding.kind is BindingKind.ASSIGN and binding.value is not None and not binding.path:
                        yield module, binding.value
            case ast.Attribute(value=base, attr=attr):
                for home, owner in resolver.classes_of(module, base):
                    for where, binding in resolver.class_attribute(home, owner, attr):
                        if binding.value is not None and not binding.path:
                            yield where, binding.value

    def _makes(self, module: ModuleIndex, value: ast.expr) -> bool:
        """Return whether an expression is a function that JAX has compiled, or made of another one, or that a function
        of the tree returns."""
        if not isinstance(value, ast.Call):
            return False
        if self._names(module, value) & (COMPILES | _GRADIENTS):
            return True
        resolver = self._project.fact(Resolver)
        returned = [
            (ref.module, part)
            for ref in self._functions(module, value)
            if isinstance(ref.node, ast.FunctionDef)
            for part in resolver.returns(ref.node)
        ]
        return bool(returned) and all(self._gives(where, part) for where, part in returned)

    def _gives(self, module: ModuleIndex, part: ast.expr) -> bool:
        """``return jax.jit(step)``, or the name of a function that is compiled."""
        if isinstance(part, ast.Call):
            return bool(self._names(module, part) & COMPILES)
        found = self._project.fact(Resolver).points_to(module, part)
        return bool(found) and all(isinstance(ref.node, FUNCTIONS) and self._is_compiled(ref) for ref in found)

    def _is_compiled(self, function: NodeRef) -> bool:
        """``@jax.jit``, ``@partial(jax.jit, static_argnums=0)``"""
        assert isinstance(function.node, FUNCTIONS)
        resolver = self._project.fact(Resolver)
        return any(
            not resolver.names(function.module, part).isdisjoint(COMPILES)
            for decorator in function.node.decorator_list
            for part in ([decorator.func, *decorator.args] if isinstance(decorator, ast.Call) else [decorator])
            if isinstance(part, ast.Name | ast.Attribute)
        )

    def is_traced(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether a place is in a function that JAX traces, where nothing is read: one that is compiled, or that
        is given to JAX by its name."""
        for up in module.syntax.ancestors(node):
            if isinstance(up, FUNCTIONS) and (
                self._is_compiled(NodeRef(module, up)) or self._is_given(module, up.name)
            ):
                return True
        return False

    def _is_given(self, module: ModuleIndex, name: str) -> bool:
        return any(
            any(found.startswith(_TRACES) for found in self._names(module, call))
            for use in module.uses.get(name, ())
            if isinstance(call := module.syntax.parents.get(use), ast.Call) and use in call.args
        )


def _given(binding: Binding) -> ast.expr | None:
    """Return what a name gets, or what is added to it; None if that is unknown."""
    if binding.kind is BindingKind.AUGMENT and isinstance(binding.node, ast.AugAssign):
        return binding.node.value
    return binding.value if binding.kind is BindingKind.ASSIGN else None
