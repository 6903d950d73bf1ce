"""Places where the host waits for the GPU: ``.item()``, ``float(loss)``, printing a tensor, ``synchronize()`` ..."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.libraries import Models
from gpulint.libraries.operations import Sync as Row
from gpulint.placement.expressions import asks_for_scale, is_weight
from gpulint.placement.host_results import casts_to_host, is_made, leaves_gpu, moves_model, queues_copy
from gpulint.placement.index_reads import is_read_below, read_index, without_read_too
from gpulint.placement.isinstance_tests import gets_host_value, gets_no_tensor, gets_tensor_instead, is_collection
from gpulint.placement.jax_waits import WAITING, JaxWaits
from gpulint.placement.shown_arguments import shown
from gpulint.placement.stored_elements import copied_element
from gpulint.placement.subscript_indices import index_names, is_limited, loops_around, source_of, targets
from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.placement.tensor_location import TensorLocations
from gpulint.placement.tensor_tables import holds_trained
from gpulint.placement.tested_tensors import ORDERS, asks_for_text, filters_on_gpu, is_read_too, is_tested_on_gpu
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import (
    Binding,
    BindingKind,
    LoopNode,
    ModuleIndex,
    NodeRef,
    last_name,
)

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_STEPS = 4
"""How many names and methods away from the sync an element is looked for."""
_REDUCTIONS = frozenset({"sum", "mean", "max", "min", "norm", "all", "any", "argmax", "eq"})
_PRINTERS = frozenset(
    "print set_postfix set_postfix_str set_description set_description_str info debug warning log_message write".split()
)
_WAITING = frozenset(
    "item cpu to type tolist masked_select get_scale state_dict synchronize float int bool log".split()
)
"""Names that :class:`SyncPoints` looks into besides those of the rows."""
_LOGGERS = frozenset({"add_scalar", "add_scalars"})
_MASKS = frozenset({"bool", "eq", "ne", "gt", "ge", "lt", "le", "isnan", "isinf", "isfinite", "logical_not", "isin"})
"""Methods and functions that give a mask."""
_KEEPS = frozenset("to cuda view reshape squeeze unsqueeze flatten expand expand_as clone contiguous detach".split())
_TERMS = regex.compile(r"losses$|metrics$|scores$")
"""Names of what holds the few numbers of a batch, not its samples."""
_MASK_NAME = regex.compile(r"(^|_)mask$")
_JOINS = frozenset({"any", "all"})
_COMPARISONS = frozenset({"allclose", "equal"})
_TESTS = frozenset({"isnan", "isinf", "isfinite", "any", "all"}) | _COMPARISONS


class Waits:
    """What the rows say of functions in which the host waits."""

    def __init__(self, models: Models) -> None:
        rows: tuple[Row, ...] = models.rows("sync")
        self._rows = {name: row for row in reversed(rows) if row.kind in ("barrier", "read") for name in row.calls}
        self.last_names = frozenset(name.rpartition(".")[2] for name in self._rows)

    def of(self, project: Project, module: ModuleIndex, call: ast.Call, name: str) -> Row | None:
        """The row of what is called, whose last name is given."""
        if name not in self.last_names:
            return None
        known = project.fact(Resolver).call_names(module, call) & self._rows.keys()
        return self._rows[min(known)] if known else None


class SyncPoints:
    """Host synchronisations of one project."""

    def __init__(self, project: Project) -> None:
        self._project, self.db = project, project.db
        self._waits = project.models.derived(Waits)
        self._jax = JaxWaits(project)
        self._tensors = TensorLocations(project)
        self._handed = TensorLocations(project, callers=True)

    @query
    def in_module(self, module: ModuleIndex) -> tuple[SyncPoint, ...]:
        """All primitives of a module, wherever they stand, in no order."""
        branches: Iterator[ast.If | ast.IfExp | ast.While] = module.syntax.of(ast.If, ast.IfExp, ast.While)
        calls = (self._of_call(module, call) for call in module.calls_where(self._may_wait))
        tests = (self._of_test(module, branch.test) for branch in branches)
        items = (self._of_item(module, item) for item in module.syntax.of(ast.Subscript))
        found = without_read_too(module, [found for found in (*calls, *tests, *items) if found is not None])
        found += filters_on_gpu(self._project, module)
        if self._jax.applies(module):
            found = [sync for sync in found if not self._jax.is_traced(module, sync.node)]
            known = {sync.node for sync in found}
            found += [sync for sync in self._of_jax(module) if sync.node not in known]
        return tuple(found)

    def asserted(self, module: ModuleIndex) -> Iterator[ast.expr]:
        """Yield tests of tensors in ``assert`` statements and before a ``raise``, which check on purpose: they are no
        findings, but they wait."""
        checks: Iterator[ast.Assert | ast.If] = module.syntax.of(ast.Assert, ast.If)
        for check in checks:
            if isinstance(check, ast.If) and not isinstance(check.body[-1], ast.Raise):
                continue
            found = self._of_test(module, check.test)
            calls = (part for part in walk(check.test) if isinstance(part, ast.Call) and last_name(part.func) in _TESTS)
            resolver = self._project.fact(Resolver)
            if found is not None:
                if isinstance(check, ast.Assert):
                    yield found.node
            elif any(
                name.startswith("torch.")
                for call in calls
                if not (call.args and self._tensors.is_host(module, call.args[0]))
                for name in resolver.call_names(module, call)
            ):
                yield check.test

    def is_of_jax(self, module: ModuleIndex, sync: SyncPoint) -> bool:
        """Return whether the host waits there for what JAX computes."""
        return self._jax.waits_there(module, sync)

    def _of_jax(self, module: ModuleIndex) -> Iterator[SyncPoint]:
        for call in module.calls_where(lambda name: name in WAITING or self._may_wait(name)):
            name = last_name(call.func)
            shows = name in _PRINTERS or name in _LOGGERS or (name == "log" and self._is_wandb(module, call))
            if (sync := self._jax.of_call(module, call, self._shown(module, call, name) if shows else ())) is not None:
                yield sync
        branches: Iterator[ast.If | ast.IfExp | ast.While] = module.syntax.of(ast.If, ast.IfExp, ast.While)
        for branch in branches:
            if (sync := self._jax.of_test(module, branch.test)) is not None:
                yield sync

    def _of_item(self, module: ModuleIndex, item: ast.Subscript) -> SyncPoint | None:
        if self._is_old_item(module, item):
            assert isinstance(item.value, ast.Attribute)
            return SyncPoint(item, SyncKind.READ, item.value.value)
        if (copied := copied_element(self._project, module, item, self._tensors.is_tensor)) is not None:
            return SyncPoint(copied, SyncKind.READ, copied)
        if (index := read_index(self._project, module, item, self._is_tensor)) is not None:
            return SyncPoint(item, SyncKind.READ, index)
        return SyncPoint(item, SyncKind.SELECT, item.value) if self._selects(module, item) else None

    def _is_old_item(self, module: ModuleIndex, node: ast.Subscript) -> bool:
        """``loss.data[0]``, as ``loss.item()`` was written once."""
        if not isinstance(node.value, ast.Attribute) or node.value.attr != "data":
            return False
        first = isinstance(node.slice, ast.Constant) and node.slice.value == 0
        return first and self._tensors.is_tensor(module, node.value.value)

    def _selects(self, module: ModuleIndex, node: ast.Subscript) -> bool:
        """``logits[labels == 1]``: how much that is, the host must know. Storing one number there needs no wait."""
        if not isinstance(node.ctx, ast.Load) or isinstance(node.slice, ast.Slice | ast.Tuple | ast.Constant):
            return False
        if not self._is_mask(module, node.slice):
            return False
        return self._handed.is_tensor(module, node.value) or is_read_below(module, node, self._tensors.is_host)

    def _is_mask(self, module: ModuleIndex, node: ast.expr, depth: int = 0) -> bool:
        """Return whether the value is a tensor of truth values, by what it is made of."""
        match node:
            case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()]):
                return True
            case ast.UnaryOp(op=ast.Invert(), operand=inner):
                return self._is_mask(module, inner, depth)
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
                return self._is_mask(module, left, depth) and self._is_mask(module, right, depth)
            case ast.Call(keywords=keywords) if any(
                keyword.arg == "dtype" and last_name(keyword.value) == "bool" for keyword in keywords
            ):
                return True
            case ast.Call(func=ast.Attribute(attr=name, value=inner)):
                return name in _MASKS or (name in _KEEPS and self._is_mask(module, inner, depth))
            case ast.Name(id=name) if depth < 3:
                bindings = reaching(module, module.scope(node).lookup(name), node)
                if bindings and _MASK_NAME.search(name) and all(map(_is_unknown, bindings)):
                    return True
                values = [
                    binding.value for binding in bindings if binding.kind is BindingKind.ASSIGN and not binding.path
                ]
                return (
                    bool(values)
                    and len(values) == len(bindings)
                    and all(value is not None and self._is_mask(module, value, depth + 1) for value in values)
                )
        return False

    def _may_wait(self, name: str) -> bool:
        return name in _WAITING or name in _PRINTERS or name in _LOGGERS or name in self._waits.last_names

    def _of_call(self, module: ModuleIndex, call: ast.Call) -> SyncPoint | None:
        func = call.func
        name = last_name(func) if isinstance(func, ast.Name | ast.Attribute) else ""
        if (row := self._waits.of(self._project, module, call, name)) is not None:
            value = call.args[0] if row.kind == "read" and call.args else None
            return SyncPoint(call, SyncKind.BARRIER if value is None else SyncKind.READ, value)
        if isinstance(func, ast.Attribute):
            if moves_model(module, call) or queues_copy(call):
                return None
            leaves = casts_to_host(call) or (name == "to" and leaves_gpu(self._project, module, call))
            if leaves and self._is_tensor(module, func.value):
                return SyncPoint(call, SyncKind.READ, func.value)
            if name in ("item", "cpu") and not call.args and not self._tensors.is_host(module, func.value):
                return SyncPoint(call, SyncKind.READ, func.value)
            if name == "tolist" and self._is_tensor(module, func.value):
                return SyncPoint(call, SyncKind.READ, func.value)
            if name == "masked_select":
                torch = self._project.fact(Resolver).call_names(module, call) & {"torch.masked_select"}
                picked = call.args[0] if torch and call.args else func.value
                if self._handed.is_tensor(module, picked):
                    return SyncPoint(call, SyncKind.SELECT, picked)
            if (name == "get_scale" or asks_for_scale(module, call)) and "scaler" in last_name(func.value).lower():
                return SyncPoint(call, SyncKind.READ, func.value)
        elif name in ("float", "int", "bool") and len(call.args) == 1:
            argument = call.args[0]
            reduced = (
                isinstance(argument, ast.Call) and last_name(argument.func) in _REDUCTIONS and _is_method(argument)
            )
            if (reduced and not self._tensors.is_host(module, argument)) or self._is_tensor(module, argument):
                return SyncPoint(call, SyncKind.READ, argument)
        if name in _PRINTERS or name in _LOGGERS or (name == "log" and self._is_wandb(module, call)):
            known = self._is_tensor if name in _LOGGERS else self._tensors.is_tensor
            for part in self._shown(module, call, name):
                if known(module, part) or holds_trained(module, part):
                    return SyncPoint(call, SyncKind.FORMAT, part)
        return None

    def _is_tensor(self, module: ModuleIndex, node: ast.expr) -> bool:
        """Return whether it is a tensor by its own form, or by what all callers pass."""
        return self._tensors.is_tensor(module, node) or self._handed.is_tensor(module, node)

    def _shown(self, module: ModuleIndex, call: ast.Call, name: str) -> Iterator[ast.expr]:
        """Return what a call turns into text, without what ``float()`` reads in its arguments: a wait of its own."""
        parts = shown(self._project, module, call, name in _LOGGERS)
        return (part for part in parts if not self._is_read_before(module, part))

    def _is_read_before(self, module: ModuleIndex, part: ast.expr) -> bool:
        up = module.syntax.parents.get(part)
        if not isinstance(up, ast.Call) or not isinstance(up.func, ast.Name) or up.func.id != "float":
            return False
        if self._jax.applies(module) and self._jax.of_call(module, up, ()) is not None:
            return True
        return self._of_call(module, up) is not None

    def _is_wandb(self, module: ModuleIndex, call: ast.Call) -> bool:
        """``wandb.log({"loss": loss})``, which makes numbers of tensors at once."""
        return "wandb.log" in self._project.fact(Resolver).call_names(module, call)

    def read_one_by_one(self, module: ModuleIndex, sync: SyncPoint) -> list[LoopNode | ast.comprehension]:
        """The loops that go through the elements of the tensor whose element is read (``preds[i].item()``)."""
        around = loops_around(module, sync.node)
        element = sync.value
        if not around or element is None:
            return []
        for _ in range(MAX_STEPS):
            if isinstance(element, ast.Call) and isinstance(element.func, ast.Attribute):
                element = element.func.value
            elif isinstance(element, ast.Name):
                bindings = reaching(module, module.scope(element).lookup(element.id), element)
                if len(bindings) != 1 or bindings[0].path or bindings[0].value is None:
                    break
                if bindings[0].kind is not BindingKind.ASSIGN or not isinstance(bindings[0].value, ast.Subscript):
                    break
                element = bindings[0].value
            else:
                break
        indices: set[str] = set()
        base = element
        while isinstance(base, ast.Subscript):
            if not indices and isinstance(base.slice, ast.Constant) and isinstance(base.slice.value, str):
                return []  # an entry of a table
            indices |= index_names(module, base, around)
            base = base.value
        if not indices and isinstance(base, ast.Name):
            bindings = reaching(module, module.scope(base).lookup(base.id), base)
            indices = {base.id} if any(binding.kind is BindingKind.LOOP for binding in bindings) else set()
        if isinstance(base, ast.Name) and (_TERMS.search(base.id) or is_collection(module, base)):
            return []
        through = [loop for loop in around if indices & targets(loop) and not is_limited(loop)]
        sources = (source_of(loop, base.id) for loop in through) if isinstance(base, ast.Name) else ()
        if any(source is not None and is_collection(module, source) for source in sources):
            return []
        if sync.node is not sync.value and not is_made(self._project, module, base):
            return through if through and self._handed.is_tensor(module, base) else []
        return through  # what an assignment copies is a tensor in any case

    def gets_numbers(self, module: ModuleIndex, sync: SyncPoint, calls: tuple[NodeRef, ...]) -> bool:
        """Return whether the calls that lead to the sync pass it numbers, which it leaves as they are, what is in host
        memory already, or what takes another branch."""
        value = sync.value
        if not calls or value is None:
            return False
        if gets_tensor_instead(module, value, calls[-1]):
            return True
        return gets_no_tensor(self._tensors, module, value, calls[-1]) or gets_host_value(
            self._project, self._tensors, module, value, calls[-1]
        )

    def _of_test(self, module: ModuleIndex, test: ast.expr) -> SyncPoint | None:
        """``if torch.isnan(loss)``: the branch needs the value."""
        inner = test.operand if isinstance(test, ast.UnaryOp) else test
        parts = inner.values if isinstance(inner, ast.BoolOp) else [inner]
        for part in parts:
            bare = part.operand if isinstance(part, ast.UnaryOp) else part
            while isinstance(bare, ast.Call) and _is_method(bare) and not bare.args and last_name(bare.func) in _JOINS:
                assert isinstance(bare.func, ast.Attribute)
                bare = bare.func.value
            if isinstance(bare, ast.Compare) and isinstance(bare.ops[0], ORDERS) and not asks_for_text(bare):
                for side in (bare.left, bare.comparators[0]):
                    known = self._tensors.is_tensor(module, side) and self._handed.is_tensor(module, side)
                    known = known or (is_read_too(module, side) and not self._tensors.is_host(module, side))
                    if known or is_tested_on_gpu(self._project, module, side):
                        return SyncPoint(bare, SyncKind.TEST, side)
            if not isinstance(bare, ast.Call) or last_name(bare.func) not in _TESTS:
                continue
            compares = last_name(bare.func) in _COMPARISONS
            if isinstance(bare.func, ast.Attribute) and (compares or not bare.args):
                owner = bare.func.value
                if self._tensors.is_tensor(module, owner):
                    return SyncPoint(bare, SyncKind.TEST, owner)
            if not bare.args:
                continue
            names = self._project.fact(Resolver).call_names(module, bare)
            tested = bare.args[0]
            while isinstance(tested, ast.Call) and last_name(tested.func) in _TESTS and tested.args:
                tested = tested.args[0]  # `torch.any(torch.isnan(x))`
            known = is_weight(module, tested) or self._tensors.is_tensor(module, tested)
            if known and any(name.startswith("torch.") for name in names):
                return SyncPoint(bare, SyncKind.TEST, bare.args[0])
        return None


def _is_unknown(binding: Binding) -> bool:
    """A parameter, or part of what was unpacked: nothing but the name tells what it is."""
    return binding.kind is BindingKind.PARAMETER or (binding.kind is BindingKind.ASSIGN and bool(binding.path))


def _is_method(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute)
