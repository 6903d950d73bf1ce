"""Batch sizes: which calls make the batches of training and of evaluation, and which expression sets their size."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.argument_binding import RECEIVERS, argument_of, positional
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.source import Span
from gpulint.training import batch_makers
from gpulint.training.batch_samplers import sampled_size
from gpulint.training.guards import Guards
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_iterables import unwrap_zipped
from gpulint.training.loop_roles import Role
from gpulint.training.shared_loops import steps_on_condition
from gpulint.values.arguments import Arguments
from gpulint.workload.data_split import Split, chooses_split, merged_split, split_of, split_of_loop, split_of_target
from gpulint.workload.map_chunks import is_for_map
from gpulint.workload.split_sizes import BATCH_PARAMETERS, may_take_size, sized_split
from gpulint.workspace.module_index import (
    FUNCTIONS,
    BindingKind,
    CallSite,
    FunctionNode,
    ModuleIndex,
    NodeRef,
    last_name,
)

if TYPE_CHECKING:
    from gpulint.project import Project

HEAD = 3
"""Lines of a call from which on an argument is told at its own place, not at the call's."""


@dataclass(frozen=True, slots=True)
class SharedBatchSize:
    """A loader in a helper whose batch size is the same for training and evaluation: ``call`` makes the loader."""

    call: NodeRef
    batch: NodeRef
    training: NodeRef
    evaluation: NodeRef
    """Calls of the helper for either split."""


@dataclass(frozen=True, slots=True)
class BatchSource(CallSite):
    """A call that makes batches (or a framework's argument that says how). ``batch`` sets their size."""

    split: Split
    batch: NodeRef
    keyword: str = ""
    """The argument of a framework call (``per_device_eval_batch_size``) that stands for the batches."""

    @property
    def text(self) -> str:
        """The batch size as written."""
        return ast.unparse(self.batch.node)


class BatchSources:
    """Batch sources of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    @query
    def in_module(self, module: ModuleIndex) -> list[BatchSource]:
        """The batch sources of a module, in source order."""
        found = [source for call in module.calls for source in self._sources(module, call)]
        return sorted(found, key=lambda source: (source.node.lineno, source.node.col_offset))

    def _sources(self, module: ModuleIndex, call: ast.Call) -> Iterator[BatchSource]:
        if batch_makers.takes_size_alone(last_name(call.func)):
            return
        for name, value in _written_keywords(module, call):
            if (split := sized_split(name)) is not None:
                yield BatchSource(NodeRef(module, call), split, NodeRef(module, value), name)
        yield from self._positional(module, call)
        if not self._may_size(module, call):
            return
        # Few calls have a split that anybody can name, and finding a batch size may take the whole tree.
        named = self._named(module, call)
        if named is None and not self._is_loader(module, call):
            return
        batch = self._batch(module, call)
        split = (named or self._drawn(module, call)) if batch is not None else None
        if batch is None or split is None or self._project.fact(Guards).is_debugging(module, call):
            return
        if not isinstance(batch.node, ast.expr) or not is_for_map(self._project, module, call, batch.node):
            yield BatchSource(NodeRef(module, call), split, batch)

    def _may_size(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether :meth:`_batch` may find a batch size. A first look, within the module alone."""
        if any(keyword.arg is None or keyword.arg in BATCH_PARAMETERS for keyword in call.keywords):
            return True
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("batch", "padded_batch"):
            return True
        if self._is_loader(module, call):
            return True
        by_position = bool(call.args) and may_take_size(self._project, module, call, of_split=False)
        return by_position and self._target(module, call) is not None

    def _positional(self, module: ModuleIndex, call: ast.Call) -> Iterator[BatchSource]:
        """``make(train, test, size, size)`` where the parameters are ``train_batch_size`` and ``test_batch_size``."""
        if not any("batch" in _label(arg).lower() for arg in call.args if not isinstance(arg, ast.Constant)):
            return
        if not may_take_size(self._project, module, call, of_split=True):
            return
        for callee in self._project.fact(Resolver).callees(module, call):
            if not isinstance(callee.node, FUNCTIONS):
                continue
            for name, argument in zip(positional(callee.node, call), call.args, strict=False):
                if (split := sized_split(name)) is not None:
                    yield BatchSource(NodeRef(module, call), split, NodeRef(module, argument), name)

    def shared(self, module: ModuleIndex) -> Iterator[SharedBatchSize]:
        """Loaders that helpers of a module make for both splits alike."""
        for loader in self._project.fact(LoaderFlow).in_module(module):
            function = module.function(loader.node)
            batch = self._batch(module, loader.node)
            if function is None or batch is None or batch.module is not module or isinstance(batch.node, ast.IfExp):
                continue
            if self._project.fact(Guards).is_without_gradients(module, loader.node):
                continue  # Nothing is trained on the batches, whatever their split is called.
            if isinstance(batch.node, ast.Name) and batch.node.id in {arg.arg for arg in function.args.args}:
                continue  # The calls say how large the batches are.
            if isinstance(batch.node, ast.Constant) and batch.node.value is None:
                continue  # The data set makes the batches itself.
            if any(chooses_split(test) for test, _ in conditions(module, loader.node)):
                continue  # Another branch makes the loader of the other split.
            if self._named(module, loader.node) is Split.EVAL:
                continue  # What calls an evaluation with the training data evaluates it.
            sites: dict[Split, list[NodeRef]] = {}
            for site in self._project.fact(Resolver).call_sites(module, function):
                assert isinstance(site.node, ast.Call)
                split = self.split(site.module, site.node)
                if split is Split.TRAIN and self._project.fact(Guards).is_without_gradients(site.module, site.node):
                    continue  # the training split is only evaluated
                if split is not None:
                    sites.setdefault(split, []).append(site)
            for evaluation in sites.get(Split.EVAL, []):
                beside = [site for site in sites.get(Split.TRAIN, []) if home(site) is home(evaluation)]
                for training in beside[:1]:
                    if self._passes_alike(module, function, batch, training, evaluation):
                        yield SharedBatchSize(loader.call, batch, training, evaluation)

    def _passes_alike(
        self, module: ModuleIndex, function: FunctionNode, batch: NodeRef, one: NodeRef, other: NodeRef
    ) -> bool:
        """Return whether two calls of ``function`` give its ``batch`` expression the same value."""
        scope = module.scope_of[function]
        for name in {part.id for part in walk(batch.node) if isinstance(part, ast.Name)} - {*RECEIVERS}:
            bindings = scope.bindings.get(name, [])
            if any(binding.kind is not BindingKind.PARAMETER for binding in bindings):
                return False
            if bindings:
                passed = []
                for site in (one, other):
                    assert isinstance(site.node, ast.Call)
                    passed.append(argument_of(function, site.node, name))
                if None in passed or ast.unparse(passed[0]) != ast.unparse(passed[1]):  # type: ignore[arg-type]
                    return False
        return True

    def _batch(self, module: ModuleIndex, call: ast.Call) -> NodeRef | None:
        """The expression for a call's batch size."""
        for keyword in call.keywords:
            if keyword.arg in BATCH_PARAMETERS:
                return None if self._takes_batches(module, call) else NodeRef(module, keyword.value)
        if self._is_loader(module, call):
            argument = self._project.fact(Arguments).of(module, call, "batch_size", 1)
            if argument.is_absent and (sampler := keyword_value(call, "batch_sampler")) is not None:
                return sampled_size(self._project, module, sampler)
            return argument.refs[0] if len(argument.refs) == 1 else None
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("batch", "padded_batch") and call.args:
            return NodeRef(module, call.args[0]) if "tensorflow" in module.packages else None
        if any(keyword.arg is None for keyword in call.keywords):
            argument = self._project.fact(Arguments).of(module, call, "batch_size")
            return argument.refs[0] if len(argument.refs) == 1 else None
        if call.args and may_take_size(self._project, module, call, of_split=False):
            return self._by_position(module, call) if self._target(module, call) is not None else None
        return None

    def _takes_batches(self, module: ModuleIndex, call: ast.Call) -> bool:
        """``validate(model, loader, batch_size=8)``: the batches were made before."""
        return any(
            isinstance(part, ast.Name) and self._project.fact(LoaderFlow).loaders_of(module, part)
            for part in (*call.args, *(keyword.value for keyword in call.keywords))
        )

    def _by_position(self, module: ModuleIndex, call: ast.Call) -> NodeRef | None:
        """The argument for a parameter named like a batch size of a function of the tree."""
        for callee in self._project.fact(Resolver).callees(module, call):
            if isinstance(callee.node, FUNCTIONS):
                for name, argument in zip(positional(callee.node, call), call.args, strict=False):
                    if name in BATCH_PARAMETERS:
                        return NodeRef(module, argument)
        return None

    def _is_loader(self, module: ModuleIndex, call: ast.Call) -> bool:
        return self._project.fact(LoaderFlow).is_loader(module, call)

    # -- what the batches are for --------------------------------------------------------------------------------------

    def split(self, module: ModuleIndex, call: ast.Call) -> Split | None:
        """Return what the batches of a call are for: by the name that takes them, else the data's, else the loops'."""
        return self._named(module, call) or self._drawn(module, call)

    def _named(self, module: ModuleIndex, call: ast.Call) -> Split | None:
        """Return what names around a call say its batches are for."""
        if batch_makers.makes_batches(self._project.models, module, call):
            return Split.TRAIN  # and validation, for which fastai has a size of its own
        found = self._target(module, call)
        if found is not None:
            return found
        data = next((k.value for k in call.keywords if k.arg in ("dataset", "data_source", "input_nodes", "ds")), None)
        for part in ([data] if data is not None else []) + call.args[:1]:
            if (found := split_of(last_name(part))) is not None:
                return found
        return None

    def trains(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether a training step draws from this very loader, whatever its split is called.

        A loop that both splits run through (``run(loader, optimizer=None)``), and that steps on a condition, goes by
        what they are called.
        """
        for batch_read in self._project.fact(BatchFlow).of_loader(module, call):
            if not isinstance(batch_read.where.node, ast.For) or self._role(batch_read.where) is not Role.STEP:
                continue
            for source in unwrap_zipped(batch_read.where.node.iter):
                drawn = self._project.fact(Resolver).points_to(batch_read.where.module, source)
                if not any(ref.node is call for ref in drawn):
                    continue
                if not (self._has_training(drawn) and steps_on_condition(self._project, batch_read.where)):
                    return True
        return False

    def _has_training(self, drawn: Iterable[NodeRef]) -> bool:
        return any(isinstance(ref.node, ast.Call) and self._named(ref.module, ref.node) is Split.TRAIN for ref in drawn)

    def _drawn(self, module: ModuleIndex, call: ast.Call) -> Split | None:
        """Return what the loops that draw from a loader do."""
        roles = {
            batch_read.where: self._role(batch_read.where)
            for batch_read in self._project.fact(BatchFlow).of_loader(module, call)
        }
        splits = {
            Split.TRAIN if role is Role.STEP else Split.EVAL
            for role in roles.values()
            if role in (Role.STEP, Role.EVAL)
        }
        return splits.pop() if len(splits) == 1 else None

    def _role(self, where: NodeRef) -> Role:
        if isinstance(where.node, ast.For | ast.AsyncFor | ast.While):
            return self._project.fact(LoopContexts).role(where.module, where.node)
        return Role.OTHER

    def _target(self, module: ModuleIndex, call: ast.Call) -> Split | None:
        """The split that the receiver of a call's value names."""
        inner: ast.AST = call
        for up in module.syntax.ancestors(call):
            match up:
                case ast.Assign(targets=[ast.Subscript(slice=ast.Name() as split)]):
                    return split_of_loop(module, split)
                case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                    return split_of_target(target)
                case ast.keyword(arg=str(name)):
                    return split_of(name)
                case ast.Dict() if inner in (entries := _entries(module, up)):
                    key = entries[inner]
                    return split_of(str(key.value)) if isinstance(key, ast.Constant) else None
                case ast.DictComp(generators=[ast.comprehension(iter=ast.List() | ast.Tuple() as items)]):
                    return merged_split({split_of(str(i.value)) for i in items.elts if isinstance(i, ast.Constant)})
                case ast.Return():
                    function = module.function(up)
                    return split_of(function.name) if function is not None else None
                case ast.stmt() | ast.comprehension() | ast.Lambda():
                    return None
            inner = up
        return None


@query
def _entries(module: ModuleIndex, table: ast.Dict) -> dict[ast.AST, ast.expr | None]:
    """The keys of a dictionary's values."""
    return dict(zip(table.values, table.keys, strict=True))


def _written_keywords(module: ModuleIndex, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """The keywords of a call, and those of a dictionary that is written out and unpacked (``f(**settings)``)."""
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword.value
            continue
        given = keyword.value
        if isinstance(given, ast.Name):
            bindings = module.scope(given).lookup(given.id)
            given = bindings[0].value if len(bindings) == 1 and bindings[0].value is not None else given
        if isinstance(given, ast.Dict):
            for key, value in zip(given.keys, given.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value


def _label(node: ast.expr) -> str:
    """Return what an argument is called: the last name, or the key that it is taken from a dictionary by."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return last_name(node)


def home(site: NodeRef) -> ast.AST | None:
    """Calls are compared within a function; the ``*_dataloader`` methods of one class belong together."""
    function = site.module.function(site.node)
    if function is None or "dataloader" not in function.name.replace("data_loader", "dataloader"):
        return function
    owner = site.module.syntax.parents.get(function)
    return owner if isinstance(owner, ast.ClassDef) else function


def place_in_call(value: Span, call: Span) -> Span:
    """The call's place for a number inside of its first lines, else the number's."""
    inside = value.cell == call.cell and (call.line, call.column) <= (value.line, value.column) <= (
        call.end_line,
        call.end_column,
    )
    return call if inside and value.line <= call.line + HEAD else value
