"""``torch.cuda`` as it would answer on a machine with the chosen card."""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from gpulint_probe.estimator.cards import Card

_CAPABILITY = {
    "kepler": (3, 7), "pascal": (6, 0), "volta": (7, 0), "turing": (7, 5), "ampere-a100": (8, 0), "ampere": (8, 6),
    "ada": (8, 9), "hopper": (9, 0), "blackwell": (10, 0),
}  # fmt: skip
_DONE = (
    "set_device synchronize empty_cache manual_seed manual_seed_all seed seed_all init _lazy_init ipc_collect "
    "reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats "
    "set_per_process_memory_fraction set_rng_state set_rng_state_all set_stream"
)
_ZERO = (
    "memory_allocated memory_reserved max_memory_allocated max_memory_reserved memory_cached max_memory_cached "
    "current_device utilization temperature power_draw"
)


class _Nothing:
    """A stream, event or device context of which nothing is asked but to exist."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def elapsed_time(self, *_: Any) -> float:
        return 1.0

    def query(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def install(card: Card, gpus: int) -> contextlib.ExitStack:
    """Patch ``torch.cuda`` until the returned stack is closed."""
    cuda = torch.cuda
    capability = _CAPABILITY.get(card.kind, (8, 0))
    properties = SimpleNamespace(
        name=f"NVIDIA {card.name}", total_memory=card.total_bytes, multi_processor_count=card.sms or 108,
        major=capability[0], minor=capability[1], warp_size=32, is_integrated=False, gcnArchName="",
        max_threads_per_multi_processor=2048, uuid="GPU-0", shared_memory_per_block_optin=166912,
        shared_memory_per_block=49152, regs_per_multiprocessor=65536, L2_cache_size=40 << 20,
    )  # fmt: skip
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: gpus,
        "get_device_name": lambda *_: properties.name,
        "get_device_properties": lambda *_: properties,
        "get_device_capability": lambda *_: capability,
        "is_bf16_supported": lambda *_, **__: capability >= (8, 0),
        "is_tf32_supported": lambda: capability >= (8, 0),
        "mem_get_info": lambda *_: (card.total_bytes, card.total_bytes),
        "memory_stats": lambda *_: {},
        "memory_summary": lambda *_, **__: "",
        "get_arch_list": lambda: [f"sm_{capability[0]}{capability[1]}"],
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "current_stream": _Nothing,
        "default_stream": _Nothing,
        "can_device_access_peer": lambda *_: True,
        **dict.fromkeys(("Stream", "Event", "stream", "device", "device_of"), _Nothing),
        **dict.fromkeys(_DONE.split(), lambda *_, **__: None),
        **dict.fromkeys(_ZERO.split(), lambda *_, **__: 0),
    }
    stack = contextlib.ExitStack()
    for name, answer in answers.items():
        if hasattr(cuda, name):
            stack.enter_context(mock.patch.object(cuda, name, answer))
    stack.enter_context(mock.patch.object(torch.version, "cuda", torch.version.cuda or "12.8"))
    for owner, name, answer in (
        (torch._C, "_cuda_getDeviceCount", lambda: gpus),
        (torch.accelerator, "is_available", lambda *_, **__: True),
        (torch.accelerator, "device_count", lambda: gpus),
        (torch.accelerator, "current_accelerator", lambda *_, **__: torch.device("cuda")),
        *((torch.accelerator, name, lambda *_, **__: None) for name in ("synchronize", "set_stream", "empty_cache")),
        *((torch.accelerator, name, lambda *_: 0) for name in ("current_device_index", "current_device_idx")),
        (torch.accelerator, "current_stream", lambda *_: _Nothing()),
    ):
        if hasattr(owner, name):
            stack.enter_context(mock.patch.object(owner, name, answer))
    return stack
