"""Distributed wrappers, gradient scaling and data loaders of a script, recorded in place of what they would do."""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

from gpulint_probe.estimator.optimizers import rebind

_FSDP_OFFLOADED = {"parameters", "gradients", "optimizer state"}


@dataclass(slots=True)
class Recorded:
    """What the script was seen to use. ``seconds`` are those of each real batch, made in this process.

    ``offloaded`` are the categories of memory that are kept on the host. ``made_up``: the data is, so that its speed
    says nothing.
    """

    strategy: str = ""
    offloaded: set[str] = field(default_factory=set)
    workers: int = 0
    batch_size: int = 0
    batch_bytes: int = 0
    batches: int = 0
    samples: int = 0
    seconds: list[float] = field(default_factory=list)
    made_up: bool = False


class _Passing(torch.nn.Module):
    """A wrapper that hands everything to the module it wraps."""

    def __init__(self, module: torch.nn.Module, *_: Any, **__: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        yield

    def clip_grad_norm_(self, limit: float, *_: Any, **__: Any) -> Any:
        return torch.nn.utils.clip_grad_norm_(self.module.parameters(), limit)


def distributed(found: Recorded, gpus: int, stack: contextlib.ExitStack) -> None:
    """Answer ``torch.distributed`` for rank 0 of ``gpus`` and record DDP and FSDP."""
    started = [False]

    def start(*_: Any, **__: Any) -> None:
        started[0] = True

    def wrapper(strategy: str) -> Any:
        class Wrapper(_Passing):
            def __init__(self, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
                found.strategy = strategy
                if getattr(kwargs.get("cpu_offload"), "offload_params", False):
                    found.offloaded |= _FSDP_OFFLOADED
                super().__init__(module)

        return Wrapper

    answers: dict[str, Any] = {
        "init_process_group": start,
        "is_initialized": lambda: started[0],
        "get_rank": lambda *_: 0,
        "get_world_size": lambda *_: gpus,
        "get_backend": lambda *_: "nccl",
        **dict.fromkeys(
            "barrier all_reduce broadcast reduce all_gather destroy_process_group broadcast_object_list "
            "all_gather_into_tensor reduce_scatter_tensor monitored_barrier".split(),
            lambda *_, **__: None,
        ),
        "new_group": lambda *_, **__: None,
    }
    for name, answer in answers.items():
        stack.enter_context(mock.patch.object(dist, name, answer))
    parallel = torch.nn.parallel
    stack.enter_context(mock.patch.object(parallel, "DistributedDataParallel", wrapper("ddp")))
    stack.enter_context(mock.patch.object(parallel.distributed, "DistributedDataParallel", wrapper("ddp")))
    stack.enter_context(mock.patch.object(torch.nn, "DataParallel", _Passing))
    import torch.distributed.fsdp as fsdp

    stack.enter_context(mock.patch.object(fsdp, "FullyShardedDataParallel", wrapper("fsdp")))

    def shard(module: Any, *_: Any, **options: Any) -> Any:
        found.strategy = "fsdp"
        if isinstance(options.get("offload_policy"), fsdp.CPUOffloadPolicy):
            found.offloaded |= _FSDP_OFFLOADED
        for one in module if isinstance(module, list) else [module]:
            _as_sharded(one, fsdp.FSDPModule)
        return module

    if hasattr(fsdp, "fully_shard"):
        stack.enter_context(mock.patch.object(fsdp, "fully_shard", shard))


def _as_sharded(module: torch.nn.Module, base: Any) -> None:
    """Make a module one of FSDPModule, whose methods do nothing, as its parameters stay whole here."""
    if isinstance(module, base):
        return
    kind = type(module)
    own = [name for name, value in vars(base).items() if callable(value) and not name.startswith("_")]
    module.__class__ = type(f"FSDP{kind.__name__}", (base, kind), dict.fromkeys(own, lambda *_, **__: None))


def offloading(stack: contextlib.ExitStack) -> None:
    """Let ``save_on_cpu`` drop what it saves and make it again where it is needed, as values are not kept here."""
    hooks = torch.autograd.graph.saved_tensors_hooks

    def init(self: Any, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: torch.Tensor) -> Any:
            with torch._C.DisableTorchFunction():
                return (tensor.shape, tensor.dtype) if tensor.device.type == "meta" else tensor

        def unpack(packed: Any) -> torch.Tensor:
            return (
                packed if isinstance(packed, torch.Tensor) else torch.empty(packed[0], dtype=packed[1], device="meta")
            )

        hooks.__init__(self, pack, unpack)

    stack.enter_context(mock.patch.object(torch.autograd.graph.save_on_cpu, "__init__", init))


def scaling(stack: contextlib.ExitStack) -> None:
    """A GradScaler that always steps: no gradient overflows without values."""
    scaler = torch.amp.GradScaler

    def scale(self: Any, outputs: Any) -> Any:
        return outputs * 65536.0 if self._enabled and isinstance(outputs, torch.Tensor) else outputs

    for name, answer in (
        ("scale", scale),
        ("step", lambda self, optimizer, *args, **kwargs: optimizer.step(*args, **kwargs)),
        ("unscale_", lambda self, optimizer: None),
        ("update", lambda self, new_scale=None: None),
    ):
        stack.enter_context(mock.patch.object(scaler, name, answer))


def loaders(
    found: Recorded, how: str, steps: int, batch_size: int | None, stack: contextlib.ExitStack, off: Callable[[], Any]
) -> None:
    """Make data loaders run in this process; after the first batches (``how``: real) the last one is repeated.

    ``batch_size`` replaces that of the loaders. ``off`` returns a context in which nothing is recorded.
    """
    loader = torch.utils.data.DataLoader
    real_init, real_iter = loader.__init__, loader.__iter__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        workers = kwargs.get("num_workers", args[5] if len(args) > 5 else 0)
        found.workers = max(found.workers, workers or 0)
        kwargs["num_workers"] = 0
        for name in ("prefetch_factor", "multiprocessing_context", "timeout", "worker_init_fn"):
            kwargs.pop(name, None)
        if batch_size and kwargs.get("batch_size", 1) is not None and "batch_sampler" not in kwargs:
            if len(args) > 1:
                args = (args[0], batch_size, *args[2:])
            else:
                kwargs["batch_size"] = batch_size
        real_init(self, *args[:5], **kwargs | {"pin_memory": False, "persistent_workers": False})

    def iterate(self: Any) -> Iterator[Any]:
        batches = real_iter(self)
        batch: Any = None
        wanted = steps if how == "real" else 1
        for index in range(len(self) if hasattr(self.dataset, "__len__") else 1 << 30):
            if index < wanted or batch is None:
                began = time.perf_counter()
                with off():
                    try:
                        batch = next(batches)
                    except StopIteration:
                        return
                found.seconds.append(time.perf_counter() - began)
                tensors = [tensor for tensor in _tensors(batch) if tensor.dim()]
                found.batch_size = getattr(self, "batch_size", None) or (tensors[0].size(0) if tensors else 0)
                found.batch_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
            found.batches += 1
            found.samples += found.batch_size
            yield batch

    stack.enter_context(mock.patch.object(loader, "__init__", init))
    stack.enter_context(mock.patch.object(loader, "__iter__", iterate))


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else ()
    return [tensor for item in items for tensor in _tensors(item)]


def tied_moves(stack: contextlib.ExitStack) -> None:
    """Keep tied weights tied, and optimizers' parameters theirs, when a module moves to the device."""
    real, real_init = torch.nn.Module._apply, torch.optim.Optimizer.__init__
    optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        real_init(self, *args, **kwargs)
        optimizers.add(self)

    def apply(self: Any, function: Any, recurse: bool = True) -> Any:
        shared: dict[int, list[tuple[torch.nn.Module, str]]] = {}
        kept = []  # so that no new parameter gets the id of an old one
        for module in self.modules():
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    kept.append(parameter)
                    shared.setdefault(id(parameter), []).append((module, name))
        result = real(self, function, recurse)
        renewed: dict[int, Any] = {}
        for identity, places in shared.items():
            first, name = places[0]
            renewed[identity] = first._parameters[name]
            for module, other in places[1:]:
                module._parameters[other] = first._parameters[name]
        for optimizer in optimizers:
            rebind(optimizer, renewed)
        return result

    stack.enter_context(mock.patch.object(torch.nn.Module, "_apply", apply))
    stack.enter_context(mock.patch.object(torch.optim.Optimizer, "__init__", init))
