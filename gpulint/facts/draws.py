"""Loops that draw batches from data loaders, and whether an expression is (part of) such a batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from gpulint.facts.forwards import runs
from gpulint.facts.iterables import is_loader_name, unwrap_iterable, unwrap_zipped
from gpulint.facts.loader_classes import Loader
from gpulint.facts.memo import Memo
from gpulint.facts.passing import argument_of
from gpulint.facts.placing import places_batches
from gpulint.facts.prepared import Prepared
from gpulint.facts.rearranging import rearranged
from gpulint.facts.roles import Role
from gpulint.facts.scopes import FUNCTIONS, Bound, FunctionNode, LoopNode, ModuleScopes, Ref, last_name
from gpulint.facts.unseen_calls import handed_by_name, takes_batch
from gpulint.records import dataclass

if TYPE_CHECKING:
    from gpulint.facts.loops import Context
    from gpulint.project import Project

_HOST_METHODS = frozenset(
    {
        "items", "values", "keys", "float", "long", "half", "int", "double", "view", "reshape", "squeeze", "unsqueeze",
        "permute", "transpose", "contiguous", "pop", "get", "t", "flatten", "type", "requires_grad_", "copy", "clone",
        "repeat", "expand", "narrow", "chunk", "split", "pin_memory", "bool", "bfloat16"
    }
)  # fmt: skip
_OF_ARRAYS = frozenset({"from_numpy", "as_tensor", "FloatTensor", "LongTensor", "IntTensor", "Tensor"})


@dataclass(frozen=True, slots=True)
class Draw:
    """A loop (or framework hook, or ``next(...)``) that takes batches from ``loaders``; none when they are unknown."""

    where: Ref
    loaders: tuple[Loader, ...] = ()
    prepared: bool = False
    """The loader went through Accelerate, Fabric or the like: its batches are on the device already."""
    arrays: bool = False
    """The batch holds NumPy arrays or numbers, of which the loop makes tensors: no loader pins those."""


class Draws:
    """Draws of batches in one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._prepared = Prepared(project)
        self._memo = Memo()

    @cached_property
    def by_loader(self) -> dict[ast.Call, list[Draw]]:
        """Loader call -> the loops of the project that draw from it."""
        table: dict[ast.Call, list[Draw]] = {}
        for scopes in self._project.training_modules:
            with self._project.containing(scopes.path, "loops over loaders"):
                for loop in scopes.loops:
                    # What the loop does is not asked: a loop over no known loader is of no use here.
                    if (draw := self._known_draw(scopes, loop)) is not None:
                        for loader in draw.loaders:
                            table.setdefault(loader.node, []).append(draw)
        return table

    def draw(self, scopes: ModuleScopes, loop: LoopNode | ast.comprehension) -> Draw | None:
        """How a loop takes batches, or None if it iterates over something else."""
        if (known := self._known_draw(scopes, loop)) is not None:
            return known
        if isinstance(loop, ast.comprehension | ast.While):
            return None
        source = unwrap_iterable(loop.iter)
        if last_name(source) in ("range", "trange") or places_batches(self._project, scopes, source):
            return None
        if self._project.loops.over_loader(scopes, loop) and self._project.loops.role(scopes, loop) in (
            Role.STEP,
            Role.EVAL,
        ):
            return Draw(Ref(scopes, loop), (), self._prepared.is_prepared(scopes, source))
        return None

    def _known_draw(self, scopes: ModuleScopes, loop: LoopNode | ast.comprehension) -> Draw | None:
        """How a loop takes batches from loaders of the tree."""
        if isinstance(loop, ast.While):
            return None
        sources = unwrap_zipped(loop.iter)
        found = [loader for source in sources for loader in self._project.loaders.loaders_of(scopes, source)]
        loaders = tuple(dict.fromkeys(found))
        return Draw(Ref(scopes, loop), loaders, self._are_moved(scopes, sources[0], loaders)) if loaders else None

    def _are_moved(self, scopes: ModuleScopes, source: ast.expr, loaders: tuple[Loader, ...]) -> bool:
        """Are the batches on the device already: through Accelerate and the like, or by the loaders themselves?"""
        return (bool(loaders) and all(map(self.places, loaders))) or self._prepared.is_prepared(scopes, source)

    def places(self, loader: Loader) -> bool:
        """Does a loader put its batches on a device other than the CPU itself?"""
        device = loader.device
        return device is not None and self._project.devices.may_be_gpu(loader.scopes, device)

    def hands(self, loader: Loader, draw: Draw, context: Context) -> bool:
        """Do the calls that lead to ``draw`` hand ``loader`` on, as far as they can be followed? A helper that many
        loops draw through (``log_every(loader)``) is called with other loaders elsewhere."""
        if not isinstance(draw.where.node, ast.For | ast.AsyncFor):
            return True
        at, source = draw.where, unwrap_iterable(draw.where.node.iter)
        for call in reversed(context.calls):
            function = at.scopes.function(at.node)
            if not isinstance(source, ast.Name) or function is None or not isinstance(call.node, ast.Call):
                return True
            passed = argument_of(function, call.node, source.id)
            if passed is None or isinstance(passed, ast.Starred):
                return True
            at, source = call, unwrap_iterable(passed)
        made = self._project.loaders.loaders_of(at.scopes, source)
        return not made or any(one.node is loader.node for one in made)

    # -- batches -------------------------------------------------------------------------------------------------------

    def batch(self, scopes: ModuleScopes, node: ast.expr) -> Draw | None:
        """The draw that an expression's tensors come from, if it is a batch, an element of one, or computed from one on
        the host."""
        nothing: Draw | None = None
        return self._memo.ask(node, lambda: self._find_batch(scopes, node), nothing)

    def _find_batch(self, scopes: ModuleScopes, node: ast.expr) -> Draw | None:
        match node:
            case ast.Name():
                return self._name_batch(scopes, node)
            case ast.Attribute(value=base) | ast.Subscript(value=base) | ast.Starred(value=base):
                return self.batch(scopes, base) or self._unseen_batch(scopes, node)
            case ast.IfExp(body=body, orelse=orelse):
                return self.batch(scopes, body) or self.batch(scopes, orelse)
            case ast.Call(func=ast.Name(id="next"), args=[source, *_]):
                if _is_first(node) and not any(self._project.loops.around(scopes, node)):
                    return None  # a few samples to look at
                inner = unwrap_iterable(source)
                loaders = self._project.loaders.loaders_of(scopes, inner)
                if not loaders and (
                    not is_loader_name(last_name(inner)) or places_batches(self._project, scopes, inner)
                ):
                    return None
                return Draw(Ref(scopes, node), loaders, self._are_moved(scopes, inner, loaders))
            case ast.Call(func=ast.Attribute(value=source, attr="next" | "__next__"), args=[]) if self._goes_on(
                scopes, node, source
            ) and (loaders := self._project.loaders.loaders_of(scopes, source)):
                return Draw(Ref(scopes, node), loaders, self._are_moved(scopes, source, loaders))
            case ast.Call(func=ast.Name(id="getattr"), args=[base, *_]):
                return self.batch(scopes, base)
            case ast.Call(func=ast.Attribute(value=base, attr=attr)) if attr in _HOST_METHODS:
                return self.batch(scopes, base)
            case ast.Call(func=ast.Attribute(value=base, attr="to"), args=[dtype]) if self._project.devices.is_dtype(
                scopes, dtype
            ):
                return self.batch(scopes, base)
            case ast.Call(args=[made, *_], func=func) if last_name(func) in _OF_ARRAYS and (
                self._project.resolver.names(scopes, func) & {f"torch.{last_name(func)}"}
            ):
                draw = self.batch(scopes, made)
                return replace(draw, arrays=True) if draw is not None else None
            case ast.Call(args=args, func=func) if last_name(func) in (
                "Variable",
                "zip",
                "enumerate",
                "list",
                "tuple",
                "stack",
                "cat",
            ):
                return self._first(self.batch(scopes, arg) for arg in args)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return self._first(self.batch(scopes, part) for part in parts)
            case ast.ListComp(elt=part) | ast.DictComp(value=part):
                return self.batch(scopes, part)
            case ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name() | ast.Attribute())):
                return self._fetched(scopes, node) or self._first(
                    self.batch(scopes, passed) for passed in rearranged(self._project, scopes, node)
                )
        return None

    def _fetched(self, scopes: ModuleScopes, call: ast.Call) -> Draw | None:
        """The draw of ``loader.get_batch()``, a function of the tree that returns what ``next`` gives it."""
        for callee in self._project.resolver.callees(scopes, call):
            function = callee.node
            if not isinstance(function, FUNCTIONS) or "next" not in callee.scopes.calls_by_name:
                continue
            for value in self._project.resolver.returns(function):
                draw = self.batch(callee.scopes, value)
                if draw is not None and isinstance(draw.where.node, ast.Call) and not _is_first(draw.where.node):
                    return draw
        return None

    def _goes_on(self, scopes: ModuleScopes, node: ast.Call, iterator: ast.expr) -> bool:
        """Was an iterator made outside of the loop that takes a batch from it, which is then not always the first?"""
        if not isinstance(iterator, ast.Name):
            return isinstance(iterator, ast.Attribute)
        loop = next(self._project.loops.around(scopes, node), None)
        made = scopes.scope(iterator).lookup(iterator.id)
        return any(next(self._project.loops.around(scopes, binding.node), None) is not loop for binding in made)

    @staticmethod
    def _first(draws: Iterator[Draw | None]) -> Draw | None:
        return next((draw for draw in draws if draw is not None), None)

    def _unseen_batch(self, scopes: ModuleScopes, node: ast.expr) -> Draw | None:
        """The draw of ``input["A"]`` in a method that nobody is seen to call."""
        function = takes_batch(self._project, scopes, node)
        if function is None:
            return None
        assert isinstance(node, ast.Subscript)
        passed = handed_by_name(self._project, function, last_name(node.value))
        return self._first(self.batch(where, value) for where, value in passed) or Draw(Ref(scopes, function))

    @cached_property
    def runs(self) -> dict[FunctionNode, tuple[Ref, ...]]:
        """``forward`` of a model of the tree -> the calls that run it in loops over batches."""
        return runs(self._project)

    def _name_batch(self, scopes: ModuleScopes, node: ast.Name) -> Draw | None:
        from gpulint.facts.reaching import reaching

        for binding in reaching(scopes, scopes.scope(node).lookup(node.id), node):
            draw: Draw | None = None
            if binding.kind is Bound.LOOP and binding.value is not None:
                holder = binding.node
                assert isinstance(holder, ast.For | ast.AsyncFor | ast.comprehension)
                counter = binding.path[:1] == (0,) and last_name(holder.iter) in ("enumerate",)
                if not counter:
                    draw = self.draw(scopes, holder) or self.batch(scopes, unwrap_iterable(holder.iter))
            elif binding.kind is Bound.ASSIGN and binding.value is not None and binding.value is not node:
                draw = self.batch(scopes, binding.value)
            elif binding.kind is Bound.PARAMETER:
                draw = self._parameter_batch(scopes, node.id, binding.scope.node)
            if draw is not None:
                return draw
        return None

    def _parameter_batch(self, scopes: ModuleScopes, name: str, function: ast.AST) -> Draw | None:
        if isinstance(function, ast.Lambda):
            call = scopes.module.parents.get(function)
            if isinstance(call, ast.Call) and last_name(call.func) in ("map", "apply_to_collection", "tree_map"):
                return self._first(self.batch(scopes, arg) for arg in call.args if arg is not function)
            return None
        if not isinstance(function, FUNCTIONS):
            return None
        if name == "self":
            return self._project.own_batches.draw_of(scopes, function)
        loops = self._project.loops
        if function.name in ("training_step", "validation_step", "test_step") and name == "batch":
            return None  # Lightning moves the batch before the hook.
        if name == "batch" and loops.is_brain_hook(scopes, function):
            return Draw(Ref(scopes, function))
        if [arg.arg for arg in function.args.args[1:]] == [name] and loops.is_engine_step(scopes, function):
            return Draw(Ref(scopes, function))
        nothing: Draw | None = None
        question = "parameter", function, name
        return self._memo.ask(question, lambda: self._passed_batch(scopes, function, name), nothing)

    def _passed_batch(self, scopes: ModuleScopes, function: FunctionNode, name: str) -> Draw | None:
        """The draw of what the callers of a function hand to a parameter."""
        sites = self._project.resolver.call_sites(scopes, function)
        if not sites and function.name == "forward":
            sites = self.runs.get(function, ())
        return _merged(self._passed_batches(sites, function, name))

    def _passed_batches(self, sites: tuple[Ref, ...], function: FunctionNode, name: str) -> Iterator[Draw | None]:
        for site in sites:
            assert isinstance(site.node, ast.Call)
            passed = argument_of(function, site.node, name)
            if passed is not None:
                yield self.batch(site.scopes, passed)


def _merged(draws: Iterator[Draw | None]) -> Draw | None:
    """The first draw, with the loaders of those that are like it: a helper moves the batches of several loops."""
    found = [draw for draw in draws if draw is not None]
    if not found:
        return None
    like = [draw for draw in found if (draw.prepared, draw.arrays) == (found[0].prepared, found[0].arrays)]
    return replace(found[0], loaders=tuple(dict.fromkeys(loader for draw in like for loader in draw.loaders)))


def _is_first(draw: ast.Call) -> bool:
    """``next(iter(DataLoader(...)))``: the first batch of a loader that is made for it."""
    match draw.args:
        case [ast.Call(func=ast.Name(id="iter"), args=[ast.Call()]), *_]:
            return True
    return False
