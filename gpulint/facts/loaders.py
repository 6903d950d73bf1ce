"""Data loaders, the loops that draw batches from them, and whether an expression is (part of) such a batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpulint.facts.gpu_programs import is_for_tpu
from gpulint.facts.loops import Role, is_loader_name, unwrap_iterable
from gpulint.facts.rearranging import rearranged
from gpulint.facts.resolve import Ref
from gpulint.facts.scopes import FUNCTIONS, Bound, FunctionNode, LoopNode, ModuleScopes, last_name
from gpulint.facts.unseen_calls import handed_by_name, takes_batch

if TYPE_CHECKING:
    from gpulint.facts.feeding import Feeding
    from gpulint.project import Project

MAX_DEPTH = 8
MAX_KEPT = 40
"""Of more loaders kept under one name nobody knows which is meant."""

TORCH_LOADERS = frozenset(
    {
        "torch.utils.data.DataLoader",
        "torch.utils.data.dataloader.DataLoader",
        "torchdata.stateful_dataloader.StatefulDataLoader",
        "monai.data.DataLoader",
        "monai.data.dataloader.DataLoader",
        "webdataset.WebLoader",
        "wds.WebLoader",
        "torch_geometric.loader.DataLoader",
        "torch_geometric.data.DataLoader",
        "torch_geometric.loader.DenseDataLoader",
        "torch_geometric.loader.NeighborLoader",
        "torch_geometric.loader.LinkNeighborLoader",
        "torch_geometric.loader.HGTLoader",
        "torch_geometric.loader.ClusterLoader",
        "torch_geometric.loader.GraphSAINTRandomWalkSampler",
        "torch_geometric.loader.ShaDowKHopSampler",
        "torch_geometric.loader.NeighborSampler",
        "torch_geometric.loader.RandomNodeLoader",
        "torch_geometric.loader.DataListLoader",
        "dgl.dataloading.DataLoader",
        "dgl.dataloading.GraphDataLoader",
        "dgl.dataloading.NodeDataLoader",
        "dgl.dataloading.EdgeDataLoader",
    }
)
"""Classes that take the parameters of ``torch.utils.data.DataLoader`` and hand them on."""

_LAST_NAMES = frozenset(name.rpartition(".")[2] for name in TORCH_LOADERS)
_SAMPLING = (
    "NeighborLoader",
    "LinkNeighborLoader",
    "HGTLoader",
    "NeighborSampler",
    "ShaDowKHopSampler",
    "NodeDataLoader",
    "EdgeDataLoader",
)
PREPARE = frozenset(
    {"prepare", "setup_dataloaders", "prepare_data_loader", "_setup_dataloader", "MpDeviceLoader", "prepare_dataloader"}
)
_HOST_METHODS = frozenset(
    {
        "items", "values", "keys", "float", "long", "half", "int", "double", "view", "reshape", "squeeze", "unsqueeze",
        "permute", "transpose", "contiguous", "pop", "get", "t", "flatten", "type", "requires_grad_", "copy", "clone",
        "repeat", "expand", "narrow", "chunk", "split", "pin_memory", "bool", "bfloat16"
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Loader:
    """A call that makes a data loader. ``call.node`` is the call; ``name`` its qualified class."""

    call: Ref
    name: str

    @property
    def node(self) -> ast.Call:
        assert isinstance(self.call.node, ast.Call)
        return self.call.node

    @property
    def scopes(self) -> ModuleScopes:
        return self.call.scopes

    @property
    def variable(self) -> str:
        """Name that the loader is assigned to, as written; '' if it has none."""
        parent = self.scopes.module.parents.get(self.node)
        target = (
            parent.targets[0]
            if isinstance(parent, ast.Assign)
            else parent.target
            if isinstance(parent, ast.AnnAssign)
            else None
        )
        return ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute) else ""

    @property
    def samples_graph(self) -> bool:
        """A graph sampler, whose feature tensors may already be on the GPU."""
        return self.name.rsplit(".", 1)[-1] in _SAMPLING


@dataclass(frozen=True, slots=True)
class Draw:
    """A loop (or framework hook, or ``next(...)``) that takes batches from ``loaders``; none when they are unknown."""

    where: Ref
    loaders: tuple[Loader, ...] = ()
    prepared: bool = False
    """The loader went through Accelerate, Fabric or the like: its batches are on the device already."""


class Loaders:
    """Data loaders of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._by_module: dict[int, list[Loader]] = {}
        self._nodes: dict[int, set[ast.Call]] = {}
        self._active: set[ast.AST] = set()

    def in_module(self, scopes: ModuleScopes) -> list[Loader]:
        """Calls of a module that make a torch-like data loader, in source order; ``super().__init__`` of a subclass
        counts."""
        if id(scopes) not in self._by_module:
            calls = [] if is_for_tpu(scopes) else scopes.calls
            found = [loader for call in calls if (loader := self._loader(scopes, call)) is not None]
            self._by_module[id(scopes)] = sorted(found, key=lambda loader: (loader.node.lineno, loader.node.col_offset))
        return self._by_module[id(scopes)]

    def is_loader(self, scopes: ModuleScopes, call: ast.Call) -> bool:
        """Is the call one of those?"""
        found = self._nodes.get(id(scopes))
        if found is None:
            found = self._nodes[id(scopes)] = {loader.node for loader in self.in_module(scopes)}
        return call in found

    def _loader(self, scopes: ModuleScopes, call: ast.Call) -> Loader | None:
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr == "__init__":
            owner = scopes.class_of(call)
            if owner is None:
                return None
            names = self._project.resolver.base_names(scopes, owner) & TORCH_LOADERS
        else:
            last = last_name(func)
            if not last or isinstance(func, ast.Call) or not (last in _LAST_NAMES or _is_alias(scopes, func)):
                return None
            names = self._project.resolver.names(scopes, func) & TORCH_LOADERS
        return Loader(Ref(scopes, call), min(names)) if names else None

    def loaders_of(self, scopes: ModuleScopes, node: ast.expr) -> tuple[Loader, ...]:
        """Loaders that the value of an expression may be (in-tree subclasses of DataLoader included)."""
        found: list[Loader] = []
        resolver = self._project.resolver
        for ref in resolver.origins(scopes, node):
            call = ref.node
            if isinstance(call, ast.arg):
                found.extend(self._handed_along(ref.scopes, call))
            elif isinstance(call, ast.Name) and call.id == "self" and (owner := ref.scopes.class_of(call)) is not None:
                found.extend(self._passed_on(ref.scopes, owner))
            elif isinstance(call, ast.Attribute) and is_loader_name(call.attr):
                found.extend(self._kept_under(ref.scopes, call.attr))
            if not isinstance(call, ast.Call):
                continue
            if (loader := self._loader(ref.scopes, call)) is not None:
                found.append(loader)
            elif (source := unwrap_iterable(call)) is not call and source not in self._active:
                self._active.add(source)
                try:
                    found.extend(self.loaders_of(ref.scopes, source))
                finally:
                    self._active.discard(source)
            else:
                for made in resolver.origins(ref.scopes, call.func):
                    if not isinstance(made.node, ast.ClassDef):
                        continue
                    if resolver.base_names(made.scopes, made.node) & TORCH_LOADERS:
                        found.append(Loader(ref, "torch.utils.data.DataLoader"))
                    else:
                        found.extend(self._passed_on(made.scopes, made.node))
        return tuple(dict.fromkeys(found))

    def _passed_on(self, scopes: ModuleScopes, owner: ast.ClassDef) -> Iterator[Loader]:
        """Loaders whose batches the ``__iter__`` of a class yields as they are."""
        method = self._project.resolver.method(scopes, owner, "__iter__")
        if method is None or method.node in self._active:
            return
        self._active.add(method.node)
        try:
            for loop in ast.walk(method.node):
                if isinstance(loop, ast.For) and not any(
                    isinstance(part, ast.Attribute) and part.attr in ("to", "cuda") for part in ast.walk(loop)
                ):
                    yield from self.loaders_of(method.scopes, unwrap_iterable(loop.iter))
        finally:
            self._active.discard(method.node)

    def _kept_under(self, scopes: ModuleScopes, name: str) -> Iterator[Loader]:
        """Loaders that classes beside the module, or beside what it imports, keep as ``self.train_loader``: what
        ``data`` may be in ``data.train_loader`` when its class is chosen by name (``getattr(datasets, name)(...)``)."""
        kept = self._kept.get(name, ())
        if not 0 < len(kept) <= MAX_KEPT:
            return
        folders = {scopes.path.parent, *(path.parent for path in self._project.imported(scopes.path))}
        yield from (loader for loader in kept if loader.scopes.path.parent in folders)

    @cached_property
    def _kept(self) -> dict[str, list[Loader]]:
        """Name of an attribute -> the loaders that the classes of modules which are no programs keep under it."""
        table: dict[str, list[Loader]] = {}
        for scopes in self._project.training_modules:
            if "__main__" in scopes.module.source.text:
                continue
            for (_, name), bindings in scopes.attributes.items():
                for binding in bindings:
                    if isinstance(binding.value, ast.Call) and is_loader_name(name):
                        made = self._loader(scopes, binding.value)
                        table.setdefault(name, []).extend([made] if made is not None else [])
        return table

    def _handed_along(self, scopes: ModuleScopes, parameter: ast.arg) -> Iterator[Loader]:
        """Loaders for a parameter of a function that is itself an argument: ``run(step=step, batches=loader)``."""
        arguments = scopes.module.parents.get(parameter)
        function = scopes.module.parents.get(arguments) if arguments is not None else None
        if not isinstance(function, FUNCTIONS) or parameter in self._active:
            return
        self._active.add(parameter)
        try:
            for site in self._project.loops.handed_over(scopes, function):
                assert isinstance(site.node, ast.Call)
                for keyword in site.node.keywords:
                    if keyword.arg == parameter.arg:
                        yield from self.loaders_of(site.scopes, keyword.value)
        finally:
            self._active.discard(parameter)

    @cached_property
    def feeding(self) -> Feeding:
        from gpulint.facts.feeding import Feeding

        return Feeding(self._project)

    # -- who draws from a loader ---------------------------------------------------------------------------------------

    @cached_property
    def draws(self) -> dict[ast.Call, list[Draw]]:
        """Loader call -> the loops of the project that draw from it."""
        table: dict[ast.Call, list[Draw]] = {}
        for scopes in self._project.training_modules:
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
        if last_name(source) in ("range", "trange") or self._on_device(scopes, source):
            return None
        if self._project.loops.over_loader(scopes, loop) and self._project.loops.role(scopes, loop) in (
            Role.STEP,
            Role.EVAL,
        ):
            return Draw(Ref(scopes, loop), (), self.prepared(scopes, source))
        return None

    def _known_draw(self, scopes: ModuleScopes, loop: LoopNode | ast.comprehension) -> Draw | None:
        """How a loop takes batches from loaders of the tree."""
        if isinstance(loop, ast.While):
            return None
        source = unwrap_iterable(loop.iter)
        loaders = self.loaders_of(scopes, source)
        return Draw(Ref(scopes, loop), loaders, self.prepared(scopes, source)) if loaders else None

    def _on_device(self, scopes: ModuleScopes, source: ast.expr) -> bool:
        """Iterators that put batches on a device themselves (torchtext, tf.data, DALI, JAX, GraphLearn)."""
        for ref in self._project.resolver.origins(scopes, source):
            if isinstance(ref.node, ast.Call):
                if any(keyword.arg in ("device", "device_id", "to_device") for keyword in ref.node.keywords):
                    return True
                names = self._project.resolver.call_names(ref.scopes, ref.node)
                if any(
                    name.split(".", 1)[0] in ("tensorflow", "tf", "jax", "nvidia", "torchtext", "tensorflow_datasets")
                    for name in names
                ):
                    return True
                made = self._project.resolver.origins(ref.scopes, ref.node.func)
                if any(isinstance(one.node, ast.ClassDef) and _uses_dali(one.scopes) for one in made):
                    return True
        return False

    def prepared(self, scopes: ModuleScopes, source: ast.expr) -> bool:
        """Did the loader go through ``accelerator.prepare`` or ``fabric.setup_dataloaders`` on its way here?"""
        name = last_name(source)
        for method in PREPARE:
            for call in scopes.calls_by_name.get(method, []):
                if any(last_name(argument) == name for argument in call.args):
                    return True
        if isinstance(source, ast.Name) and source not in self._active and self._wraps_prepared(scopes, source):
            return True
        function = scopes.function(source)
        if function is None or not isinstance(source, ast.Name) or function in self._active:
            return False
        if source.id not in {arg.arg for arg in [*function.args.args, *function.args.kwonlyargs]}:
            return False
        self._active.add(function)
        try:
            for site in self._project.resolver.call_sites(scopes, function):
                assert isinstance(site.node, ast.Call)
                bound = bool(function.args.args) and function.args.args[0].arg == "self"
                passed = self._project.resolver.argument_of(function, site.node, source.id, bound)
                if passed is not None and self.prepared(site.scopes, passed):
                    return True
        finally:
            self._active.discard(function)
        return False

    def _wraps_prepared(self, scopes: ModuleScopes, source: ast.Name) -> bool:
        """Was the name assigned from a prepared loader, as it is or shortened by ``skip_first_batches``?"""
        self._active.add(source)
        try:
            for binding in scopes.scope(source).lookup(source.id):
                value = binding.value
                if binding.kind is Bound.ASSIGN and self._prepares(scopes, value, binding.path):
                    return True
                if binding.kind is Bound.ASSIGN and value is not None and not binding.path:
                    if self._comes_prepared(scopes, value):
                        return True
                    inner = unwrap_iterable(value)
                    if (
                        isinstance(inner, ast.Name | ast.Attribute)
                        and last_name(inner) != source.id
                        and self.prepared(scopes, inner)
                    ):
                        return True
        finally:
            self._active.discard(source)
        return False

    def _prepares(self, scopes: ModuleScopes, value: ast.expr | None, path: tuple[int, ...]) -> bool:
        """``accelerator.prepare(model, DataLoader(...))``: is what comes out at ``path`` a loader made on the spot?"""
        if not isinstance(value, ast.Call) or last_name(value.func) not in PREPARE:
            return False
        at = path[0] if path else 0
        made = value.args[at] if at < len(value.args) else None
        return isinstance(made, ast.Call) and bool(self.loaders_of(scopes, made))

    def _comes_prepared(self, scopes: ModuleScopes, value: ast.expr) -> bool:
        """``loader = make_loader()``: does the function hand back what it has let a framework prepare?"""
        if not isinstance(value, ast.Call):
            return False
        return any(
            isinstance(made, ast.Call) and last_name(made.func) in PREPARE
            for callee in self._project.resolver.callees(scopes, value)
            if isinstance(callee.node, FUNCTIONS)
            for made in self._project.resolver.returns(callee.node)
        )

    # -- batches -------------------------------------------------------------------------------------------------------

    def batch(self, scopes: ModuleScopes, node: ast.expr, depth: int = 0) -> Draw | None:
        """The draw that an expression's tensors come from, if it is a batch, an element of one, or computed from one on
        the host."""
        if depth > MAX_DEPTH:
            return None
        match node:
            case ast.Name():
                return self._name_batch(scopes, node, depth)
            case ast.Attribute(value=base) | ast.Subscript(value=base) | ast.Starred(value=base):
                return self.batch(scopes, base, depth + 1) or self._unseen_batch(scopes, node)
            case ast.IfExp(body=body, orelse=orelse):
                return self.batch(scopes, body, depth + 1) or self.batch(scopes, orelse, depth + 1)
            case ast.Call(func=ast.Name(id="next"), args=[source, *_]):
                inner = unwrap_iterable(source)
                loaders = self.loaders_of(scopes, inner)
                if not loaders and (not is_loader_name(last_name(inner)) or self._on_device(scopes, inner)):
                    return None
                return Draw(Ref(scopes, node), loaders, self.prepared(scopes, inner))
            case ast.Call(func=ast.Attribute(value=base, attr=attr)) if attr in _HOST_METHODS:
                return self.batch(scopes, base, depth + 1)
            case ast.Call(func=ast.Attribute(value=base, attr="to"), args=[dtype]) if self._project.devices.is_dtype(
                scopes, dtype
            ):
                return self.batch(scopes, base, depth + 1)
            case ast.Call(args=args, func=func) if last_name(func) in (
                "Variable",
                "zip",
                "enumerate",
                "list",
                "tuple",
                "stack",
                "cat",
            ):
                return self._first(self.batch(scopes, arg, depth + 1) for arg in args)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return self._first(self.batch(scopes, part, depth + 1) for part in parts)
            case ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name())):
                return self._first(
                    self.batch(scopes, passed, depth + 1) for passed in rearranged(self._project, scopes, node)
                )
        return None

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
    def _runs(self) -> dict[FunctionNode, tuple[Ref, ...]]:
        """``forward`` of a model of the tree -> the calls of such models that stand in loops over batches."""
        table: dict[FunctionNode, list[Ref]] = {}
        loops, resolver = self._project.loops, self._project.resolver
        for scopes in self._project.training_modules:
            for loop in scopes.loops:
                if not isinstance(loop, ast.For) or not loops.over_loader(scopes, loop):
                    continue
                for call in loops.calls_in(scopes, loop):
                    for callee in resolver.callees(scopes, call):
                        if isinstance(callee.node, FUNCTIONS) and callee.node.name == "forward":
                            table.setdefault(callee.node, []).append(Ref(scopes, call))
        return {function: tuple(calls) for function, calls in table.items()}

    def _name_batch(self, scopes: ModuleScopes, node: ast.Name, depth: int) -> Draw | None:
        from gpulint.facts.reaching import reaching

        for binding in reaching(scopes, scopes.scope(node).lookup(node.id), node):
            draw: Draw | None = None
            if binding.kind is Bound.LOOP and binding.value is not None:
                holder = binding.node
                assert isinstance(holder, ast.For | ast.AsyncFor | ast.comprehension)
                counter = binding.path[:1] == (0,) and last_name(holder.iter) in ("enumerate",)
                if not counter:
                    draw = self.draw(scopes, holder) or self.batch(scopes, unwrap_iterable(holder.iter), depth + 1)
            elif binding.kind is Bound.ASSIGN and binding.value is not None and binding.value is not node:
                draw = self.batch(scopes, binding.value, depth + 1)
            elif binding.kind is Bound.PARAMETER:
                draw = self._parameter_batch(scopes, node.id, binding.scope.node, depth)
            if draw is not None:
                return draw
        return None

    def _parameter_batch(self, scopes: ModuleScopes, name: str, function: ast.AST, depth: int) -> Draw | None:
        if isinstance(function, ast.Lambda):
            call = scopes.module.parents.get(function)
            if isinstance(call, ast.Call) and last_name(call.func) in ("map", "apply_to_collection", "tree_map"):
                return self._first(self.batch(scopes, arg, depth + 1) for arg in call.args if arg is not function)
            return None
        if not isinstance(function, FUNCTIONS) or function in self._active:
            return None
        loops = self._project.loops
        if function.name in ("training_step", "validation_step", "test_step") and name == "batch":
            return None  # Lightning moves the batch before the hook.
        if name == "batch" and loops.is_brain_hook(scopes, function):
            return Draw(Ref(scopes, function))
        if [arg.arg for arg in function.args.args[1:]] == [name] and loops.is_engine_step(scopes, function):
            return Draw(Ref(scopes, function))
        self._active.add(function)
        try:
            bound = bool(function.args.args) and function.args.args[0].arg in ("self", "cls")
            sites = self._project.resolver.call_sites(scopes, function)
            if not sites and function.name == "forward":
                sites = self._runs.get(function, ())
            for site in sites:
                assert isinstance(site.node, ast.Call)
                passed = self._project.resolver.argument_of(function, site.node, name, bound)
                if passed is not None and (draw := self.batch(site.scopes, passed, depth + 1)) is not None:
                    return draw
        finally:
            self._active.discard(function)
        return None


def _uses_dali(scopes: ModuleScopes) -> bool:
    """Does the module of a program's own iterator import DALI, whose pipelines end on the GPU?"""
    return any(binding.target.startswith("nvidia.dali") for binding in scopes.imports)


def _is_alias(scopes: ModuleScopes, func: ast.expr) -> bool:
    """May a called name stand for something defined elsewhere under another name?"""
    root = func
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return True
    bindings = scopes.scope(root).lookup(root.id)
    if root is not func:
        return any(binding.kind is Bound.IMPORT for binding in bindings)
    return not bindings or any(binding.kind in (Bound.IMPORT, Bound.ASSIGN) for binding in bindings)
