"""Loops that draw batches from data loaders, and whether an expression is (part of) such a batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.placement.array_batches import drawn_in_step, is_few, made_of, taken_in
from gpulint.placement.container_helpers import changed_on_host, is_reformatted, rearranged
from gpulint.placement.device_iterators import is_asked_to_move, is_device_iterator
from gpulint.placement.devices import Devices
from gpulint.placement.dynamic_calls import handed_by_name, takes_batch
from gpulint.placement.fitting_loaders import fitting
from gpulint.placement.prepared_loaders import PreparedLoaders
from gpulint.query import cyclic
from gpulint.records import dataclass
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.spread import Spread
from gpulint.training.forward_calls import forward_calls
from gpulint.training.loader_calls import Loader
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_iterables import is_loader_name, unwrap_iterable, unwrap_zipped
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import (
    FUNCTIONS,
    BindingKind,
    FunctionNode,
    LoopNode,
    ModuleIndex,
    NodeRef,
    last_name,
)

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loop_contexts import LoopContext

_HOST_METHODS = frozenset(
    {
        "items", "values", "keys", "float", "long", "half", "int", "double", "view", "reshape", "squeeze", "unsqueeze",
        "permute", "transpose", "contiguous", "pop", "get", "t", "flatten", "type", "requires_grad_", "copy", "clone",
        "repeat", "expand", "narrow", "chunk", "split", "pin_memory", "bool", "bfloat16"
    }
)  # fmt: skip
_OF_SEVERAL = frozenset("Variable zip enumerate list tuple stack cat".split())
"""Calls whose result is or holds what they are given."""


@dataclass(frozen=True, slots=True)
class BatchRead:
    """A loop (or framework hook, or ``next(...)``) that takes batches from ``loaders``; none when they are unknown."""

    where: NodeRef
    loaders: tuple[Loader, ...] = ()
    prepared: bool = False
    """The loader went through Accelerate, Fabric or the like: its batches are on the device already."""
    arrays: bool = False
    """The batch holds NumPy arrays or numbers, of which the loop makes tensors: no loader pins those."""


def _draws_in(project: Project, path: Path) -> Iterator[tuple[Path, ast.Call, BatchRead]]:
    return project.fact(BatchFlow).in_file(path)


_NO_DRAW: BatchRead | None = None
_BY_LOADER: Spread[ast.Call, BatchRead] = Spread(__name__, "loops over loaders", _draws_in)


class BatchFlow:
    """Draws of batches in one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db
        self._prepared = PreparedLoaders(project)

    def of_loader(self, module: ModuleIndex, loader: ast.Call) -> list[BatchRead]:
        """The loops of the project that draw from a loader of a module."""
        return _BY_LOADER.find(self._project, module.path, loader)

    def in_file(self, path: Path) -> Iterator[tuple[Path, ast.Call, BatchRead]]:
        """The loops of a module that draw from loaders: file and call of the loader, and how."""
        module = self._project.module_at(path)
        for loop in module.loops if module is not None else ():
            assert module is not None
            # What the loop does is not asked: a loop over no known loader is of no use here.
            if (batch_read := self._known_read(module, loop)) is not None:
                for loader in batch_read.loaders:
                    yield loader.module.path, loader.node, batch_read

    def batch_read(self, module: ModuleIndex, loop: LoopNode | ast.comprehension) -> BatchRead | None:
        """Return how a loop takes batches, or None if it iterates over something else."""
        if (known := self._known_read(module, loop)) is not None:
            return known
        if isinstance(loop, ast.comprehension | ast.While):
            return None
        source = unwrap_iterable(loop.iter)
        if last_name(source) in ("range", "trange") or is_device_iterator(self._project, module, source):
            return None
        if self._project.fact(LoopContexts).over_loader(module, loop) and self._project.fact(LoopContexts).role(
            module, loop
        ) in (
            Role.STEP,
            Role.EVAL,
        ):
            return BatchRead(NodeRef(module, loop), (), self._prepared.is_prepared(module, source))
        return None

    def _known_read(self, module: ModuleIndex, loop: LoopNode | ast.comprehension) -> BatchRead | None:
        """Return how a loop takes batches from loaders of the tree."""
        if isinstance(loop, ast.While):
            return None
        sources = unwrap_zipped(loop.iter)
        found = [loader for source in sources for loader in self._project.fact(LoaderFlow).loaders_of(module, source)]
        loaders = fitting(self._project, loop, found)
        return (
            BatchRead(NodeRef(module, loop), loaders, self._are_moved(module, sources[0], loaders)) if loaders else None
        )

    def _are_moved(self, module: ModuleIndex, source: ast.expr, loaders: tuple[Loader, ...]) -> bool:
        """Return whether the batches are on the device already: through Accelerate and the like, or by the loaders
        themselves."""
        moved = bool(loaders) and all(map(self.moves_batches, loaders))
        moved = moved or self._prepared.is_prepared(module, source)
        return moved or is_asked_to_move(self._project, module, source)

    def moves_batches(self, loader: Loader) -> bool:
        """Return whether a loader puts its batches on a device other than the CPU itself."""
        device = loader.device
        return device is not None and self._project.fact(Devices).may_be_gpu(loader.module, device)

    def passes_loader(self, loader: Loader, batch_read: BatchRead, context: LoopContext) -> bool:
        """Return whether the calls that lead to ``batch_read`` pass ``loader`` on, as far as they can be followed.

        A helper that many loops read batches through (``log_every(loader)``) is called with other loaders elsewhere.
        """
        if not isinstance(batch_read.where.node, ast.For | ast.AsyncFor):
            return True
        at, source = batch_read.where, unwrap_iterable(batch_read.where.node.iter)
        for call in reversed(context.calls):
            function = at.module.function(at.node)
            if not isinstance(source, ast.Name) or function is None or not isinstance(call.node, ast.Call):
                return True
            passed = argument_of(function, call.node, source.id)
            if passed is None or isinstance(passed, ast.Starred):
                return True
            at, source = call, unwrap_iterable(passed)
        made = self._project.fact(LoaderFlow).loaders_of(at.module, source)
        return not made or any(one.node is loader.node for one in made)

    # -- batches -------------------------------------------------------------------------------------------------------

    @cyclic(_NO_DRAW)
    def batch_of(self, module: ModuleIndex, node: ast.expr) -> BatchRead | None:
        """The draw that an expression's tensors come from, if it is a batch, an element of one, or computed from one on
        the host."""
        match node:
            case ast.Name():
                return self._name_batch(module, node)
            case ast.Attribute(value=base) | ast.Subscript(value=base) | ast.Starred(value=base):
                return self.batch_of(module, base) or self._unseen_batch(module, node) or self._sample(module, node)
            case ast.IfExp(body=body, orelse=orelse):
                return self.batch_of(module, body) or self.batch_of(module, orelse)
            case ast.Call(func=ast.Name(id="next"), args=[source, *_]):
                return self._next_batch(module, node, source)
            case ast.Call(func=ast.Attribute(value=source, attr="next" | "__next__"), args=[]) if self._goes_on(
                module, node, source
            ) and (loaders := self._project.fact(LoaderFlow).loaders_of(module, source)):
                return BatchRead(NodeRef(module, node), loaders, self._are_moved(module, source, loaders))
            case ast.Call(func=ast.Name(id="getattr"), args=[base, *_]):
                return self.batch_of(module, base)
            case ast.Call(func=ast.Attribute(value=base, attr=attr)) if attr in _HOST_METHODS:
                return self.batch_of(module, base)
            case ast.Call(func=ast.Attribute(value=base, attr="to")) if is_reformatted(node):
                return self.batch_of(module, base)
            case ast.Call(func=ast.Attribute(value=base, attr="to"), args=[dtype]) if self._project.fact(
                Devices
            ).is_dtype(module, dtype):
                return self.batch_of(module, base)
            case ast.Call() if (array := made_of(self._project, module, node)) is not None:
                return self._array_batch(module, node, array)
            case ast.Call(args=args, func=func) if last_name(func) in _OF_SEVERAL:
                return self._first(self.batch_of(module, arg) for arg in args)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return self._first(self.batch_of(module, part) for part in parts)
            case ast.ListComp(elt=part) | ast.DictComp(value=part):
                return self.batch_of(module, part)
            case ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name() | ast.Attribute())):
                return (
                    self._fetched(module, node)
                    or self._first(self.batch_of(module, passed) for passed in rearranged(self._project, module, node))
                    or changed_on_host(self._project, module, node, self.batch_of)
                    or self._sample(module, node)
                )
        return None

    def _array_batch(self, module: ModuleIndex, made: ast.Call, array: ast.expr) -> BatchRead | None:
        """The draw of the arrays or numbers of which a tensor is made on the host."""
        parts = [array, *(array.args if isinstance(array, ast.Call) else ())]
        found = self._first(self.batch_of(module, part) for part in parts)
        found = found or self._sample(module, array, certain=is_few(made))
        if found is not None:
            return replace(found, arrays=True, prepared=False)
        step = drawn_in_step(self._project, module, array)
        return BatchRead(step, arrays=True) if step is not None else None

    def _sample(self, module: ModuleIndex, node: ast.expr, certain: bool = True) -> BatchRead | None:
        """The draw of a sample that a loop takes by hand, on the host."""
        if not isinstance(node, ast.Subscript | ast.Call | ast.Name) or "torch" not in module.packages:
            return None
        loop = taken_in(self._project, module, node, certain)
        return BatchRead(loop, arrays=True) if loop is not None else None

    def _next_batch(self, module: ModuleIndex, node: ast.Call, source: ast.expr) -> BatchRead | None:
        """The draw of ``next(source)``."""
        if _is_first(node) and not any(self._project.fact(LoopContexts).around(module, node)):
            return None  # a few samples to look at
        inner = unwrap_iterable(source)
        loaders = self._project.fact(LoaderFlow).loaders_of(module, inner)
        if not loaders and (not is_loader_name(last_name(inner)) or is_device_iterator(self._project, module, inner)):
            return None
        return BatchRead(NodeRef(module, node), loaders, self._are_moved(module, inner, loaders))

    def _fetched(self, module: ModuleIndex, call: ast.Call) -> BatchRead | None:
        """The draw of ``loader.get_batch()``, a function of the tree that returns what ``next`` gives it."""
        for callee in self._project.fact(Resolver).callees(module, call):
            function = callee.node
            if not isinstance(function, FUNCTIONS) or "next" not in callee.module.calls_by_name:
                continue
            for value in self._project.fact(Resolver).returns(function):
                batch_read = self.batch_of(callee.module, value)
                if (
                    batch_read is not None
                    and isinstance(batch_read.where.node, ast.Call)
                    and not _is_first(batch_read.where.node)
                ):
                    return batch_read
        return None

    def _goes_on(self, module: ModuleIndex, node: ast.Call, iterator: ast.expr) -> bool:
        """Return whether an iterator was made outside of the loop that takes a batch from it, which is then not always
        the first."""
        if not isinstance(iterator, ast.Name):
            return isinstance(iterator, ast.Attribute)
        loop = next(self._project.fact(LoopContexts).around(module, node), None)
        made = module.scope(iterator).lookup(iterator.id)
        return any(
            next(self._project.fact(LoopContexts).around(module, binding.node), None) is not loop for binding in made
        )

    @staticmethod
    def _first(draws: Iterator[BatchRead | None]) -> BatchRead | None:
        return next((batch_read for batch_read in draws if batch_read is not None), None)

    def _unseen_batch(self, module: ModuleIndex, node: ast.expr) -> BatchRead | None:
        """The draw of ``input["A"]`` in a method that nobody is seen to call."""
        function = takes_batch(self._project, module, node)
        if function is None:
            return None
        assert isinstance(node, ast.Subscript)
        passed = handed_by_name(self._project, function, last_name(node.value))
        return self._first(self.batch_of(where, value) for where, value in passed) or BatchRead(
            NodeRef(module, function)
        )

    def _name_batch(self, module: ModuleIndex, node: ast.Name) -> BatchRead | None:
        from gpulint.semantic.reaching_definitions import reaching

        for binding in reaching(module, module.scope(node).lookup(node.id), node):
            batch_read: BatchRead | None = None
            if binding.kind is BindingKind.LOOP and binding.value is not None:
                holder = binding.node
                assert isinstance(holder, ast.For | ast.AsyncFor | ast.comprehension)
                counter = binding.path[:1] == (0,) and last_name(holder.iter) in ("enumerate",)
                if not counter:
                    batch_read = self.batch_read(module, holder) or self.batch_of(module, unwrap_iterable(holder.iter))
            elif binding.kind is BindingKind.ASSIGN and binding.value is not None and binding.value is not node:
                batch_read = self.batch_of(module, binding.value)
            elif binding.kind is BindingKind.PARAMETER:
                batch_read = self._parameter_batch(module, node.id, binding.scope.node)
            if batch_read is not None:
                return batch_read
        return None

    def _parameter_batch(self, module: ModuleIndex, name: str, function: ast.AST) -> BatchRead | None:
        from gpulint.placement.batch_classes import BatchClasses

        if isinstance(function, ast.Lambda):
            call = module.syntax.parents.get(function)
            if isinstance(call, ast.Call) and last_name(call.func) in ("map", "apply_to_collection", "tree_map"):
                return self._first(self.batch_of(module, arg) for arg in call.args if arg is not function)
            return None
        if not isinstance(function, FUNCTIONS):
            return None
        if name == "self":
            return self._project.fact(BatchClasses).batch_read_of(module, function)
        loops = self._project.fact(LoopContexts)
        if function.name in ("training_step", "validation_step", "test_step") and name == "batch":
            return None  # Lightning moves the batch before the hook.
        if name == "batch" and loops.gets_batch(module, function, "on-host"):
            return BatchRead(NodeRef(module, function))
        if [arg.arg for arg in function.args.args[1:]] == [name] and loops.is_engine_step(module, function):
            return BatchRead(NodeRef(module, function))
        return self._passed_batch(module, function, name)

    @cyclic(_NO_DRAW)
    def _passed_batch(self, module: ModuleIndex, function: FunctionNode, name: str) -> BatchRead | None:
        """The draw of what the callers of a function hand to a parameter."""
        sites = self._project.fact(Resolver).call_sites(module, function)
        if not sites and function.name == "forward":
            sites = forward_calls(self._project, module, function)
        return _merged(self._passed_batches(sites, function, name))

    def _passed_batches(
        self, sites: tuple[NodeRef, ...], function: FunctionNode, name: str
    ) -> Iterator[BatchRead | None]:
        for site in sites:
            assert isinstance(site.node, ast.Call)
            passed = argument_of(function, site.node, name)
            if passed is not None:
                yield self.batch_of(site.module, passed)


def _merged(draws: Iterator[BatchRead | None]) -> BatchRead | None:
    """The first draw by its place, with the loaders of those that are like it: a helper moves the batches of several
    loops. In a cycle of functions the answer must not depend on which of them was asked first."""
    found = sorted((draw for draw in draws if draw is not None), key=lambda draw: _place(draw.where))
    if not found:
        return None
    like = [draw for draw in found if (draw.prepared, draw.arrays) == (found[0].prepared, found[0].arrays)]
    loaders = {loader for draw in like for loader in draw.loaders}
    return replace(found[0], loaders=tuple(sorted(loaders, key=lambda loader: _place(loader.call))))


def _place(ref: NodeRef) -> tuple[Path, int, int]:
    return ref.module.path, getattr(ref.node, "lineno", 0), getattr(ref.node, "col_offset", 0)


def _is_first(batch_read: ast.Call) -> bool:
    """``next(iter(DataLoader(...)))``: the first batch of a loader that is made for it."""
    match batch_read.args:
        case [ast.Call(func=ast.Name(id="iter"), args=[ast.Call()]), *_]:
            return True
    return False
