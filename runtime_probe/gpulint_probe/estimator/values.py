"""Values of small integer and boolean tensors on the meta device.

Programs branch on masks, positions and lengths (``if mask.all()``) and select by them. Those come from shapes and from
the batch, so their values are known: a copy on the CPU goes through the same operators as the meta tensor. Floating
point results depend on parameters, which have no values here.
"""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten

_ATTRIBUTE = "_gpulint_value"
LARGEST = 1 << 22
LARGEST_FLOAT = 1 << 12
# Factories whose result follows from their arguments.
_FACTORIES = frozenset(
    "arange zeros ones full scalar_tensor eye tril_indices triu_indices linspace new_zeros new_ones new_full".split()
)
# Too many elements per element read to follow for a value that no branch asks for.
_SKIPPED = frozenset({"mm", "bmm", "addmm", "convolution", "_cudnn_rnn"})


def value_of(tensor: Any) -> torch.Tensor | None:
    """The values of a meta tensor, where they are known."""
    return getattr(tensor, _ATTRIBUTE, None)


def keep_value(tensor: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Give a meta tensor values (a CPU tensor of its shape and type) unless it is too large; returns the tensor."""
    limit = LARGEST_FLOAT if tensor.is_floating_point() or tensor.is_complex() else LARGEST
    if tensor.numel() <= limit and tensor.shape == value.shape:
        setattr(tensor, _ATTRIBUTE, value)
    return tensor


def follow(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
    """Compute the values of a call's outputs where those of all its inputs are known."""
    inputs = [tensor for tensor in _flat((args, tuple(kwargs.values()))) if tensor.device.type == "meta"]
    known = [tensor for tensor in inputs if value_of(tensor) is not None]
    name = func._schema.name.partition("::")[2]
    if func._schema.is_mutable and inputs and len(known) < len(inputs):
        if hasattr(inputs[0], _ATTRIBUTE):
            delattr(inputs[0], _ATTRIBUTE)
        return
    outputs = [tensor for tensor in _flat((out,)) if tensor.device.type == "meta"]
    if len(known) < len(inputs) or not outputs or name in _SKIPPED:
        return
    if not inputs and name not in _FACTORIES and name not in ("_to_copy", "copy_"):
        return
    if any(tensor.numel() > _limit(tensor) for tensor in outputs):
        return
    try:
        real = _flat((func(*_real(args), **_real(kwargs)),))
    except Exception:  # a value is a help, never a need
        return
    for tensor, value in zip(outputs, real, strict=False):
        keep_value(tensor, value)


def sized_by_value(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """The output of an operator whose size depends on values, where those are known; else None."""
    deciding = args[:1] if func not in (aten.index.Tensor, aten.masked_select.default) else args[1:2]
    tensors = [t for t in _flat(deciding) if t.dtype in (torch.bool, torch.uint8) or func is not aten.index.Tensor]
    values = [value_of(tensor) for tensor in tensors]
    if not tensors or any(value is None for value in values):
        return None
    source = args[0]
    if func is aten.index.Tensor:
        stand_in = torch.empty(source.shape[:0] + source.shape, dtype=source.dtype, device="meta")
        places = [_places(index) for index in args[1]]
        return stand_in[tuple(place for group in places for place in group)]
    if func is aten.masked_select.default and values[0] is not None:
        count = int(torch.broadcast_to(values[0], torch.broadcast_shapes(source.shape, args[1].shape)).sum())
        return torch.empty(count, dtype=source.dtype, device="meta")
    try:
        real = func(*_real(args), **_real(kwargs))
    except Exception:
        return None
    if not isinstance(real, torch.Tensor):
        return None
    return keep_value(torch.empty(real.shape, dtype=real.dtype, device="meta"), real)


def _places(index: Any) -> list[Any]:
    if index is None:
        return [slice(None)]
    value = value_of(index)
    if index.dtype in (torch.bool, torch.uint8) and value is not None:
        return [torch.empty(len(found), dtype=torch.long, device="meta") for found in value.nonzero(as_tuple=True)]
    return [index]


def _limit(tensor: torch.Tensor) -> int:
    return LARGEST_FLOAT if tensor.is_floating_point() or tensor.is_complex() else LARGEST


def _real(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        known = value_of(value)
        return known if known is not None else value
    if isinstance(value, torch.device) and value.type == "meta":
        return torch.device("cpu")
    if isinstance(value, dict):
        return {key: _real(item) for key, item in value.items()}
    return type(value)(_real(item) for item in value) if type(value) in (tuple, list) else value


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in _flat(item)] if isinstance(value, tuple | list) else []
