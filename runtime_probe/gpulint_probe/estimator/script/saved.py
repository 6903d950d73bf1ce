"""``torch.save`` and ``torch.load`` of a script: what it saves it can load again, tensors on the GPU without values."""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from gpulint_probe.estimator.script.guards import Overlay

_MOST_BYTES = 1 << 30


def install(overlay: Overlay, stack: contextlib.ExitStack) -> None:
    """Keep what is saved in the scratch folder until ``stack`` is closed."""
    for name, answer in (("save", _saving(overlay, torch.save)), ("load", _loading(overlay, torch.load))):
        stack.enter_context(mock.patch.object(torch, name, answer))


def _saving(overlay: Overlay, real: Callable[..., Any]) -> Callable[..., Any]:
    def save(obj: Any, f: Any, *args: Any, **options: Any) -> None:
        path = overlay.place(f) if isinstance(f, str | os.PathLike) else f
        with torch._C.DisableTorchFunction():
            if isinstance(path, str | os.PathLike) and _on_host(obj) > _MOST_BYTES:  # it is there, and empty
                Path(path).touch()
            else:
                real(obj, path, *args, **options)

    return save


def _on_host(value: Any, depth: int = 4) -> int:
    """Bytes of the tensors on the host that a value holds."""
    if isinstance(value, torch.Tensor):
        return 0 if value.device.type == "meta" else value.numel() * value.element_size()
    if depth == 0 or not isinstance(value, dict | list | tuple):
        return 0
    return sum(_on_host(item, depth - 1) for item in (value.values() if isinstance(value, dict) else value))


def _loading(overlay: Overlay, real: Callable[..., Any]) -> Callable[..., Any]:
    def load(f: Any, map_location: Any = None, *args: Any, **options: Any) -> Any:
        with torch._C.DisableTorchFunction():
            loaded = real(overlay.find(f), "cpu", *args, **options)
        return _moved(loaded) if _is_cuda(map_location) else loaded

    return load


def _is_cuda(place: Any) -> bool:
    if isinstance(place, dict):
        return any(_is_cuda(value) for value in place.values())
    if callable(place):
        return False
    return (place is not None and str(place).partition(":")[0] in ("cuda", "meta")) or isinstance(place, int)


def _moved(value: Any) -> Any:
    """The value with its tensors on the GPU."""
    if isinstance(value, torch.Tensor):
        return value.cuda()
    if isinstance(value, dict):
        return type(value)((key, _moved(item)) for key, item in value.items())
    return type(value)(_moved(item) for item in value) if type(value) in (list, tuple) else value
