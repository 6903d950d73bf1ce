"""Sizes that depend on values which nobody knows without a GPU, as they are assumed in scripts."""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

from typing import Any

import torch

from gpulint_probe.estimator.values import value_of

aten = torch.ops.aten
ALL = "a selection by unknown values is taken as all elements"
ONE = "unknown values are taken as one distinct value"


def assumed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any] | None:
    """Return what is assumed, and the output of an operator whose size depends on values; None for other operators.

    Selections are taken as all elements, the most memory that they can need. Distinct values are taken as one, as all
    unknown values are read as the same.
    """
    x: Any = args[0]

    def new(*shape: int, like: Any = x, dtype: Any = None) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype or like.dtype, device="meta")

    if func is aten.nonzero.default:
        return ALL, new(x.numel(), x.dim(), dtype=torch.long)
    if func is aten.masked_select.default:
        shape = torch.broadcast_shapes(x.shape, args[1].shape)
        return ALL, new(shape.numel())
    if func is aten.index.Tensor:
        return ALL, x[tuple(place for index in args[1] for place in _places(index))]
    if func is aten.index_put_.default:
        return ALL, x
    if func is aten.index_put.default:
        return ALL, torch.empty_like(x)
    if func in (aten._unique2.default, aten.unique_consecutive.default):
        return ONE, (new(min(x.numel(), 1)), new(*x.shape, dtype=torch.long), new(min(x.numel(), 1), dtype=torch.long))
    if func is aten.unique_dim.default:
        dim = args[1] % x.dim()
        shape = [min(size, 1) if index == dim else size for index, size in enumerate(x.shape)]
        return ONE, (new(*shape), new(x.size(dim), dtype=torch.long), new(1, dtype=torch.long))
    if func is aten.repeat_interleave.Tensor:
        size = kwargs.get("output_size") or x.numel()
        return "unknown repeats are taken as 1", new(size, dtype=torch.long)
    if func is aten.bincount.default:
        least = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
        weights = args[1] if len(args) > 1 else kwargs.get("weights")
        return ONE, new(max(least, 1), dtype=torch.long if weights is None else weights.dtype)
    return None


def _places(index: Any) -> list[Any]:
    """An index of ``aten.index`` as Python's, with masks as the positions of all their elements."""
    if index is None:
        return [slice(None)]
    if index.dtype not in (torch.bool, torch.uint8):
        return [index]
    value = value_of(index)
    if value is None:
        return [torch.empty(index.numel(), dtype=torch.long, device="meta") for _ in range(index.dim())]
    return [torch.empty(len(found), dtype=torch.long, device="meta") for found in value.nonzero(as_tuple=True)]
