"""Calls that move tensors to a device, and which of them move the batches of a loader."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow, BatchRead
from gpulint.placement.devices import Device, Devices
from gpulint.placement.gpu_buffers import GpuBuffers
from gpulint.programs.gpu_programs import GpuPrograms, runs_elsewhere
from gpulint.query import query, stored
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.spread import Spread
from gpulint.training.bounded_loops import reads_few_batches
from gpulint.training.guards import Guards
from gpulint.training.loader_calls import Loader
from gpulint.training.loader_passing import is_kept_from
from gpulint.training.loop_contexts import LoopContexts
from gpulint.values.arguments import Arguments
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import BindingKind, CallSite, ModuleIndex, NodeRef, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

_DEVICE_NAME = regex.compile(r"(^|_)(device|dev|devices|cuda|gpu|rank|gpu_id)(_|$|\d)", re.IGNORECASE)


_NO_TENSOR = regex.compile(
    r"^(self|cls|model|module|net|trainer|state)$|(^|_)(args?|opts?|options|cfg|config|conf|h?params|flags|settings|ctx)$",
    re.IGNORECASE,
)
"""Names of what has a ``device`` and is no tensor."""


_HELPERS = (
    "to_gpu", "to_device", "to_cuda", "move_to_device", "move_to_gpu", "move_to_cuda", "batch_to_device",
    "batch_to_gpu", "batch_to_cuda", "send_to_device", "dict_to_device", "data_to_device", "tensors_to_device"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Transfer(CallSite):
    """A call that moves ``value`` to ``devices``. ``batch_read`` is set when the value comes from a loader."""

    value: ast.expr
    devices: frozenset[Device]
    non_blocking: bool
    batch_read: BatchRead | None = None

    @property
    def targets(self) -> list[ast.expr]:
        """What may be the device, as far as the call names one."""
        return [*self.node.args[:1], *(word.value for word in self.node.keywords if word.arg == "device")]

    @property
    def to_gpu(self) -> bool:
        """Whether the target may be a GPU."""
        return bool(self.devices & {Device.CUDA, Device.XPU, Device.UNKNOWN})


def _transfers_in(project: Project, path: Path) -> Iterator[tuple[Path, ast.Call, Transfer]]:
    module = project.module_at(path)
    for transfer in project.fact(DeviceTransfers).batch_transfers(module) if module is not None else ():
        assert transfer.batch_read is not None
        for loader in transfer.batch_read.loaders:
            if not is_kept_from(project, loader, transfer.module, transfer.node):
                yield loader.module.path, loader.node, transfer


def _files_with_transfers(project: Project) -> tuple[Path, ...]:
    """Training modules, and those of helpers that say by their names that they move batches, and perhaps nothing of
    training."""
    helpers = (path for name in _HELPERS for path in project.word_index.mentioning(word_of(name)))
    return tuple(dict.fromkeys((*project.training_files(), *(path for path in helpers if _helps(project, path)))))


@stored("helpers that move batches")
def _helps(project: Project, path: Path) -> bool:
    module = project.module_at(path)
    return module is not None and any(function.name in _HELPERS for function in module.functions)


_BY_LOADER: Spread[ast.Call, Transfer] = Spread(__name__, "transfers of batches", _transfers_in, _files_with_transfers)


class DeviceTransfers:
    """Calls of one project that move something to a device."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    @query
    def transfers(self, module: ModuleIndex) -> tuple[Transfer, ...]:
        """All calls of a module that move something to a device, whatever it is."""
        calls = [
            *module.calls_by_name.get("to", []),
            *module.calls_by_name.get("cuda", []),
            *module.calls_by_name.get("type", []),
            *module.calls_by_name.get("copy_", []),
        ]
        calls.sort(key=lambda call: (call.lineno, call.col_offset))
        return tuple(found for call in calls if (found := self._transfer(module, call)) is not None)

    def transfer_at(self, module: ModuleIndex, call: ast.Call) -> Transfer | None:
        """The transfer that a call makes; None if it makes none."""
        return self._by_call(module).get(call)

    @query
    def _by_call(self, module: ModuleIndex) -> dict[ast.Call, Transfer]:
        return {transfer.node: transfer for transfer in self.transfers(module)}

    def _transfer(self, module: ModuleIndex, call: ast.Call) -> Transfer | None:
        func = call.func
        if not isinstance(func, ast.Attribute):
            return None
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        flag = keywords.get("non_blocking") or keywords.get("async")
        value, target = func.value, None
        if func.attr == "cuda":
            if self._project.fact(Resolver).names(module, func) & {"torch.cuda"}:
                return None
            devices = frozenset({Device.CUDA})
            flag = flag or (call.args[1] if len(call.args) > 1 else None)
        elif func.attr == "type":
            if not call.args or not any(
                name.startswith("torch.cuda.") for name in self._project.fact(Resolver).names(module, call.args[0])
            ):
                return None
            devices = frozenset({Device.CUDA})
        elif func.attr == "copy_":
            if not self._project.fact(GpuBuffers).is_filled_by(module, call):
                return None
            devices, value = frozenset({Device.CUDA}), call.args[0]
            flag = flag or (call.args[1] if len(call.args) > 1 else None)
        else:
            target = keywords.get("device") or (call.args[0] if call.args else None)
            if target is None or self._project.fact(Devices).is_dtype(module, target):
                return None
            if isinstance(target, ast.Starred):
                return None
            devices = self._project.fact(Devices).of(module, target)
            if devices == {Device.UNKNOWN} and not _DEVICE_NAME.search(_tail(target)):
                return None  # `.to(other)`: a tensor like another, a unit, a file ...
            positional = call.args[1:] if "device" not in keywords else call.args
            flag = flag or (positional[1] if len(positional) > 1 else None)
        non_blocking = flag is not None and not self._project.fact(Constants).of(module, flag).every(
            lambda value: not value
        )
        if flag is None and None in keywords:  # `.to(device, **options)`
            non_blocking = not self._project.fact(Arguments).of(module, call, "non_blocking").is_absent
        return Transfer(
            NodeRef(module, call),
            value,
            devices,
            non_blocking,
            self._project.fact(BatchFlow).batch_of(module, value),
        )

    def batch_transfers(self, module: ModuleIndex) -> Iterator[Transfer]:
        """Transfers of loader batches from the host to what may be a GPU."""
        for transfer in () if runs_elsewhere(module) else self.transfers(module):
            batch_read = transfer.batch_read
            if batch_read is None or batch_read.prepared or not transfer.to_gpu:
                continue
            if self._project.fact(Guards).is_without_gpu(module, transfer.node) or self._drawn_without_gpu(
                transfer, batch_read
            ):
                continue
            if self._project.fact(Guards).runs_once(module, transfer.node):
                continue
            if self._draws_seldom(batch_read.where) or reads_few_batches(self._project, batch_read.where):
                continue
            if self._was_on_gpu(transfer, batch_read) or self._stays_beside_batch(transfer):
                continue
            if not self._follows_its_batch(transfer, batch_read):
                yield transfer

    def _draws_seldom(self, where: NodeRef) -> bool:
        """Return whether a batch is taken by itself outside of all loops, or the first one (``next(iter(loader))``)
        every so many steps of one."""
        if not isinstance(where.node, ast.Call):
            return False
        periodic = self._project.fact(Guards).is_periodic
        first = any(isinstance(arg, ast.Call) and last_name(arg.func) == "iter" for arg in where.node.args[:1])
        return all(
            first and any(periodic(site.module, site.node) for site in context.calls)
            for context in self._project.fact(LoopContexts).enclosing_loops(where.module, where.node)
        )

    def _follows_its_batch(self, transfer: Transfer, batch_read: BatchRead) -> bool:
        """Return whether a field was moved before with its batch, which PyTorch Geometric's ``batch.to(device)`` moves
        in place."""
        module, field = transfer.module, transfer.value
        if not isinstance(field, ast.Attribute) or not batch_read.loaders:
            return False
        if not all(loader.name.startswith("torch_geometric.") for loader in batch_read.loaders):
            return False
        return any(
            other.node.lineno < transfer.node.lineno
            and ast.unparse(other.value) == ast.unparse(field.value)
            and module.function(other.node) is module.function(transfer.node)
            for other in self.transfers(module)
        )

    def _drawn_without_gpu(self, transfer: Transfer, batch_read: BatchRead) -> bool:
        """Return whether a helper follows its caller's tensors (``.to(scores.device)``), and a program without GPUs
        calls it."""
        if batch_read.where.module is transfer.module or transfer.devices != {Device.UNKNOWN}:
            return False
        follows = any(
            isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
            and not _NO_TENSOR.search(target.value.id)
            for target in transfer.targets
        )  # fmt: skip
        return follows and not self._project.fact(GpuPrograms).runs_on_gpu(batch_read.where.module)

    def _stays_beside_batch(self, transfer: Transfer) -> bool:
        """Return whether the device is that of a batch which is still on the host, perhaps by way of what was made
        there (``sums = torch.zeros(3, device=images.device)`` and ``images.to(sums.device)``)."""
        points_to = self._project.fact(Resolver).points_to
        named = [ref for target in transfer.targets for ref in points_to(transfer.module, target)]
        return bool(named) and all(
            isinstance(ref.node, ast.Attribute)
            and ref.node.attr == "device"
            and isinstance(ref.node.value, ast.Name)
            and self._is_drawn(ref.module, ref.node.value)
            for ref in named
        )

    def _is_drawn(self, module: ModuleIndex, name: ast.Name) -> bool:
        """Return whether a variable is what a loop draws from its loader there, or a part of that, and nothing else."""
        flow = self._project.fact(BatchFlow)
        if (batch_read := flow.batch_of(module, name)) is None or batch_read.prepared:
            return False
        parts = (ast.Name, ast.Subscript, ast.Attribute)
        return all(
            one.kind is BindingKind.LOOP
            or (isinstance(one.value, parts) and flow.batch_of(module, one.value) is not None)
            for one in reaching(module, module.scope(name).lookup(name.id), name)
        )

    def _was_on_gpu(self, transfer: Transfer, batch_read: BatchRead) -> bool:
        """Return whether the data sets of a batch hold it on the GPU, or the value is a field of a sampled graph whose
        fields of that name are there."""
        from gpulint.placement.host_to_device import HostToDevice

        names = {child.attr for child in walk(transfer.value) if isinstance(child, ast.Attribute)}
        feeding = self._project.fact(HostToDevice)
        if not batch_read.loaders and feeding.all_sets_yield_gpu_tensors():
            return True
        if batch_read.loaders and all(map(feeding.yields_gpu_tensors, batch_read.loaders)):
            return True
        fields = [feeding.gpu_fields(loader) for loader in batch_read.loaders]
        return bool(fields) and all(names & found or "*" in found for found in fields)

    def transfers_of(self, loader: Loader) -> Iterator[Transfer]:
        """Transfers anywhere in the project that move batches of ``loader`` to what may be a GPU."""
        yield from _BY_LOADER.find(self._project, loader.module.path, loader.node)


def _tail(node: ast.expr) -> str:
    if isinstance(node, ast.Call) and not last_name(node.func):
        return ""
    return last_name(node)
