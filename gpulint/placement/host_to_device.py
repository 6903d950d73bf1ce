"""How the batches of a loader reach the GPU: pinned or not, moved by a framework, or on the GPU from the start."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.finding import Place
from gpulint.libraries.frameworks import Mover
from gpulint.libraries.names import matches
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.dataset_parts import made_from
from gpulint.placement.device_iterators import binds_to_gpu
from gpulint.placement.device_transfers import DeviceTransfers, Transfer
from gpulint.placement.devices import Devices
from gpulint.placement.gpu_tensors import decodes_on_gpu, makes_on_gpu
from gpulint.placement.inner_sets import classes_of, sets_within
from gpulint.placement.kept_on_gpu import getters, is_moved, is_on_gpu, keeps_on_gpu, sets_default_device
from gpulint.placement.prepared_loaders import Frameworks
from gpulint.placement.repeated_devices import repeats_device
from gpulint.placement.unprepared_iterators import handed_over
from gpulint.programs.gpu_programs import runs_elsewhere
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.spread import Spread
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.trainer_config import all_on_cpu, is_on_cpu, trains_on_cpu
from gpulint.values.arguments import ArgumentState
from gpulint.values.constants import Constants
from gpulint.values.parameter_defaults import is_overridden
from gpulint.values.yacs_defaults import setting_keys
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

if TYPE_CHECKING:
    from gpulint.project import Project

"""How many calls deep a collate function or data set is searched for what moves samples to a GPU."""
_REGROUPS = frozenset("list tuple dict zip map range len DataFrame tolist append extend keys items values".split())


class HostToDevice:
    """Answers about the loaders of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db
        self._frameworks = project.models.derived(Frameworks)

    def is_pinned(self, loader: Loader) -> bool | None:
        """Return whether the loader pins its batches, perhaps on a condition. None if that is unknown.

        Some loaders say ``pin_memory`` to PyTorch themselves, so that nobody else may.
        """
        if loader.row is not None and loader.row.pins_itself:
            return None
        argument = loader_argument(self._project, loader, "pin_memory")
        if argument.passed is ArgumentState.NEVER:
            return False
        if argument.passed is ArgumentState.UNKNOWN or argument.unknown:
            return None
        values = [self._project.fact(Constants).of(ref.module, ref.node) for ref in argument.refs]
        if any(is_overridden(self._project, value.place) for known in values for value in known.values):
            return None
        return not all(known.every(lambda value: not value) for known in values)

    # -- frameworks ----------------------------------------------------------------------------------------------------

    def mover(self, loader: Loader) -> Place | None:
        """Return where a framework takes the loader over and moves its batches to the GPU on its own."""
        return next(iter(_MOVERS.find(self._project, loader.module.path, loader.node)), None)

    def moved_in(self, path: Path) -> Iterator[tuple[Path, ast.Call, Place]]:
        """Loaders that a module hands to frameworks: file and call of the loader, and where it is handed over."""
        module = self._project.module_at(path)
        for ref in self._handed_in(module) if module is not None else ():
            assert isinstance(ref.node, ast.expr)
            place = Place(path, ref.module.syntax.span(ref.node), "the framework moves its batches to the GPU")
            for part in _parts(ref.node):
                for loader in self._project.fact(LoaderFlow).loaders_of(ref.module, part):
                    yield loader.module.path, loader.node, place

    def _handed_in(self, module: ModuleIndex) -> Iterator[NodeRef]:
        """Expressions of a module that hand loaders to frameworks."""
        if runs_elsewhere(module):
            return
        for name in self._frameworks.prepares:
            for call in module.calls_by_name.get(name, []):
                if isinstance(call.func, ast.Attribute | ast.Name) and not is_on_cpu(self._project, module, call):
                    yield from (NodeRef(module, argument) for argument in handed_over(self._project, module, call))
        for row in self._frameworks.movers:
            for call in self._calls_of(module, row):
                values = [NodeRef(module, given.value) for given in call.keywords if given.arg in row.arguments]
                if not row.arguments:
                    values = [
                        NodeRef(module, value) for value in [*call.args, *(given.value for given in call.keywords)]
                    ]
                yield from values
        if not (all_on_cpu(self._project) or trains_on_cpu(self._project, (module,))):
            yield from self._hooks(module)

    def _calls_of(self, module: ModuleIndex, row: Mover) -> Iterator[ast.Call]:
        """The calls of a module by which a framework gets loaders, unless it uses the CPU."""
        last = tuple(pattern.rpartition(".")[2] for pattern in row.calls)
        for name in module.calls_by_name if last else ():
            for call in module.calls_by_name[name] if matches(last, (name,)) else ():
                is_known = matches(row.calls, self._project.fact(Resolver).call_names(module, call))
                if is_known and self._may_move(NodeRef(module, call), row):
                    yield call
        for method in row.methods:
            for call in module.calls_by_name.get(method, []):
                if isinstance(call.func, ast.Attribute) and self._is_mover(module, call.func.value, row):
                    yield call

    def _is_mover(self, module: ModuleIndex, owner: ast.expr, row: Mover) -> bool:
        """Return whether the object is one of the framework's that uses the GPU."""
        for ref in self._project.fact(Resolver).points_to(module, owner):
            if not isinstance(ref.node, ast.Call):
                continue
            if not matches(row.of, self._project.fact(Resolver).call_names(ref.module, ref.node)):
                continue
            return self._may_move(ref, row)
        return False

    def _may_move(self, made: NodeRef, row: Mover) -> bool:
        """Return whether a framework's call lets it use the GPU."""
        assert isinstance(made.node, ast.Call)
        if not row.device:
            return not is_on_cpu(self._project, made.module, made.node)
        device = keyword_value(made.node, row.device)
        return device is not None and self._project.fact(Devices).may_be_gpu(made.module, device)

    def _hooks(self, module: ModuleIndex) -> Iterator[NodeRef]:
        """Yield what the methods hand back from which frameworks take loaders."""
        rows = self._frameworks.loader_hooks
        for owner in module.classes:
            hooks = [item for item in owner.body if isinstance(item, FUNCTIONS) and item.name in rows]
            bases = self._project.fact(Resolver).base_names(module, owner) if hooks else ()
            for hook in hooks:
                if matches(rows[hook.name], bases):
                    yield from (NodeRef(module, value) for value in self._project.fact(Resolver).returns(hook))

    # -- data that is on the GPU already -------------------------------------------------------------------------------

    @query
    def yields_gpu_tensors(self, loader: Loader) -> bool:
        """Return whether samples or batches are on the GPU before the loader pins them. That would raise an error."""
        if self._project.fact(BatchFlow).moves_batches(loader) or sets_default_device(self._project, loader.module):
            return True  # even the numbers of samples become tensors there
        resolver = self._project.fact(Resolver)
        for ref in loader_argument(self._project, loader, "collate_fn").refs:
            for made in resolver.points_to(ref.module, ref.node):
                if isinstance(made.node, FUNCTIONS) and self._moves(made.module, made.node):
                    return True
                if isinstance(made.node, ast.Lambda) and self._moves_inside(made.module, made.node):
                    return True
                if isinstance(made.node, ast.Call) and (
                    binds_to_gpu(self._project, made.module, made.node) or self._makes_collator(made)
                ):
                    return True
        if self.gpu_fields(loader):
            return True
        for source in self.sources(loader):
            assert isinstance(source.node, ast.expr)
            parts = sets_within(self._project, made_from(self._project, [source]))
            if is_moved(self._project, source.module, source.node) or any(map(self._holds_gpu_tensors, parts)):
                return True
            for where, owner in classes_of(self._project, [source, *parts]):
                if keeps_on_gpu(self._project, where, owner):
                    return True
                if any(self._moves(*getter) for getter in getters(self._project, where, owner)):
                    return True
        return False

    def _holds_gpu_tensors(self, made: NodeRef) -> bool:
        """``TensorDataset(images.cuda(), labels.cuda())``"""
        if not isinstance(made.node, ast.Call) or last_name(made.node.func) != "TensorDataset":
            return False
        return any(
            self._moved_fields(made.module, tensor)
            or is_on_gpu(self._project, NodeRef(made.module, tensor), passed=True)
            for tensor in made.node.args
        )

    @query
    def all_sets_yield_gpu_tensors(self) -> bool:
        """Return whether the tree has data sets, and each makes its samples on the GPU: whatever its loaders are, what
        they yield is there."""
        sets = [
            getter
            for path, name in self._project.word_index.subclasses(b"Dataset")
            if (module := self._project.module_at(path)) is not None and not self._project.is_test(path)
            for owner in module.classes
            if owner.name == name.decode()
            for getter in islice(getters(self._project, module, owner), 1)
        ]
        return bool(sets) and all(self._moves(*getter) for getter in sets)

    def only_regroups(self, loader: Loader) -> bool:
        """Return whether a collate function of the tree puts samples into lists and makes no tensor of them
        (``zip(*batch)``)."""
        origins = self._project.fact(Resolver).points_to
        argument = loader_argument(self._project, loader, "collate_fn")
        made = [function.node for ref in argument.refs for function in origins(ref.module, ref.node)]
        return bool(made) and all(
            isinstance(node, (*FUNCTIONS, ast.Lambda))
            and all(last_name(part.func) in _REGROUPS for part in walk(node) if isinstance(part, ast.Call))
            for node in made
        )

    def gpu_fields(self, loader: Loader) -> frozenset[str]:
        """Fields of the sampled graph that live on the GPU (``data.to(device, "x", "y")``); ``*`` stands for all, which
        DGL's loaders put there themselves (``device=``)."""
        device = loader.row.places_on if loader.row is not None else ""
        given = loader_argument(self._project, loader, device).refs if device else ()
        if any(self._project.fact(Devices).may_be_gpu(ref.module, ref.node) for ref in given):
            return frozenset({"*"})
        if not loader.samples_graph:
            return frozenset()
        found: set[str] = set()
        for source in self.sources(loader):
            assert isinstance(source.node, ast.expr)
            found |= self._moved_fields(source.module, source.node)
        return frozenset(found)

    def sources(self, loader: Loader) -> list[NodeRef]:
        """Expressions for the data set or graph that a loader reads."""
        if loader.node.args and not isinstance(loader.node.args[0], ast.Starred):
            return [NodeRef(loader.module, loader.node.args[0])]
        named = (loader_argument(self._project, loader, name).refs for name in ("dataset", "data", "graph"))
        return [ref for refs in named for ref in refs if isinstance(ref.node, ast.expr)]

    def _moves(self, module: ModuleIndex, function: FunctionNode) -> bool:
        """Return whether the function, or a helper that it calls, moves anything to a GPU, or makes it there."""
        if any(not _follows(function, move) for move in self._moves_of(module, function)):
            return True
        return makes_on_gpu(self._project, module, function) or decodes_on_gpu(self._project, module, function)

    def _moves_inside(self, module: ModuleIndex, function: ast.Lambda) -> bool:
        """``lambda batch: [x.to(device) for x in default_collate(batch)]``, or one that calls such a function"""
        moves = self._project.fact(DeviceTransfers).transfers(module)
        return any(move.to_gpu and function in module.syntax.ancestors(move.node) for move in moves) or any(
            isinstance(called.node, FUNCTIONS) and self._moves(called.module, called.node)
            for call in walk(function)
            if isinstance(call, ast.Call)
            for called in self._project.fact(Resolver).callees(module, call)
        )

    def _makes_collator(self, made: NodeRef) -> bool:
        """Return whether a call makes an object that moves what it is called with to a GPU (``Collator(device)``)."""
        assert isinstance(made.node, ast.Call)
        resolver = self._project.fact(Resolver)
        return any(
            isinstance(called.node, FUNCTIONS) and self._moves(called.module, called.node)
            for where, owner in resolver.classes_of(made.module, made.node)
            if (called := resolver.method(where, owner, "__call__")) is not None
        )

    def _moves_of(self, module: ModuleIndex, function: FunctionNode | None) -> list[Transfer]:
        """The transfers to a GPU whose innermost function is ``function``."""
        return self._moves_in(module).get(function, [])

    @query
    def _moves_in(self, module: ModuleIndex) -> dict[FunctionNode | None, list[Transfer]]:
        table = dict[FunctionNode | None, list[Transfer]]()
        for move in self._project.fact(DeviceTransfers).transfers(module):
            if move.to_gpu:
                table.setdefault(module.function(move.node), []).append(move)
        return table

    def _moved_fields(self, module: ModuleIndex, node: ast.expr) -> frozenset[str]:
        """Return what the function that has ``node`` moves of it to a GPU: names of fields, ``*`` for all, nothing."""
        root = _root(node)
        here = module.function(node)
        found: set[str] = set()
        for transfer in self._moves_of(module, here):
            assigned = _assigned_root(module, transfer.node)
            if isinstance(transfer.value, ast.Attribute) and transfer.node is not node and assigned != root:
                continue  # `y = data.y.to(device)` leaves the data where they are
            if transfer.node is node or (root and root in (_root(transfer.value), assigned)):
                fields = [arg.value for arg in transfer.node.args[1:] if isinstance(arg, ast.Constant)]
                found |= {field for field in fields if isinstance(field, str)} or {"*"}
        return frozenset(found)


def _follows(function: FunctionNode, move: Transfer) -> bool:
    """Return whether a function moves something to the device of a tensor that it has (``.to(batch[0].device)``)."""
    given = [*move.node.args, *(keyword.value for keyword in move.node.keywords)]
    return any(repeats_device(function, value) for value in given)


def _moved_in(project: Project, path: Path) -> Iterator[tuple[Path, ast.Call, Place]]:
    return project.fact(HostToDevice).moved_in(path)


_MOVERS: Spread[ast.Call, Place] = Spread(__name__, "loaders handed to frameworks", _moved_in)


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """The elements of a list, tuple or dictionary of loaders; else the expression itself."""
    if isinstance(node, ast.List | ast.Tuple):
        for part in node.elts:
            yield from _parts(part)
    elif isinstance(node, ast.Dict):
        for part in node.values:
            yield from _parts(part)
    elif isinstance(node, ast.ListComp):
        yield from _parts(node.elt)
    elif isinstance(node, ast.Starred):
        yield from _parts(node.value)
    else:
        yield node


def _root(node: ast.expr) -> str:
    """The variable at the start of ``data.x[0]`` or ``copy(data)``, else ''."""
    while isinstance(node, ast.Attribute | ast.Subscript) or (isinstance(node, ast.Call) and node.args):
        node = node.args[0] if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _assigned_root(module: ModuleIndex, call: ast.Call) -> str:
    """The variable that ``data = dataset[0].to(device)`` assigns."""
    statement = next((up for up in module.syntax.ancestors(call) if isinstance(up, ast.stmt)), None)
    return _root(statement.targets[0]) if isinstance(statement, ast.Assign) else ""


def sets_gpu_loader(project: Project, setting: ast.Attribute, name: str) -> bool:
    """Return whether a loader whose batches go to a GPU takes its argument ``name`` from a setting
    (``_C.X.PIN_MEMORY``)."""
    wanted, feeding = setting_keys(setting), project.fact(HostToDevice)
    followers = (
        loader
        for module in project.training_modules()
        for loader in project.fact(LoaderFlow).in_module(module)
        for ref in loader_argument(project, loader, name).refs
        if isinstance(ref.node, ast.Attribute) and setting_keys(ref.node) == wanted
    )
    return any(
        feeding.mover(loader) is not None or any(project.fact(DeviceTransfers).transfers_of(loader))
        for loader in followers
    )
