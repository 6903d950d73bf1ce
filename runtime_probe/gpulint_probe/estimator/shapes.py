"""Output tensors of the most frequent operators, without PyTorch's meta kernels.

Those are written in Python for generality and take most of a probe's time. Each function here makes the tensors of the
CUDA kernel: same shapes, types and layouts. Everything not listed, or called with unlike tensors, takes the meta
kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten
Kernel = Callable[..., Any]


def output_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
    """(True, outputs) where the outputs are known here, else (False, None)."""
    name = func._schema.name
    if name.startswith("aten::_foreach_"):
        tensors = args[0]
        if tensors[0].device.type != "meta":
            return False, None
        if name.endswith("_"):
            return True, None
        if name != "aten::_foreach_norm":
            return True, [torch.empty_like(tensor) for tensor in tensors]
        return True, [tensor.new_empty(()) for tensor in tensors]
    if func is aten._grouped_mm.default and args[0].device.type == "meta":
        return True, _grouped_product(*args, **kwargs)
    kernel = _KERNELS.get(func)
    if kernel is None or kwargs or args[0].device.type != "meta":
        return False, None
    out = kernel(*args)
    return out is not None, out


def _grouped_product(
    a: torch.Tensor, b: torch.Tensor, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> torch.Tensor:
    """The products of experts. The meta kernel takes bfloat16 alone; CUDA falls back to one product an expert."""
    if a.dim() == 2 and b.dim() == 2:
        shape: tuple[int, ...] = (offs.size(0), a.size(0), b.size(1))
    else:
        shape = (a.size(0), b.size(-1)) if a.dim() == 2 else (a.size(-2), b.size(1))
        shape = shape if a.dim() == 2 or b.dim() == 2 else (a.size(0), a.size(1), b.size(-1))
    return a.new_empty(shape, dtype=out_dtype or a.dtype)


def _like_first(x: torch.Tensor, *_: Any) -> Any:
    return torch.empty_like(x) if x.is_floating_point() else None


def _in_place(x: torch.Tensor, *others: Any) -> Any:
    same = all(not isinstance(other, torch.Tensor) or other.shape == x.shape for other in others)
    return x if same else None


def _like_both(x: torch.Tensor, other: Any, *_: Any) -> Any:
    if not isinstance(other, torch.Tensor):
        return torch.empty_like(x) if x.is_floating_point() and isinstance(other, int | float) else None
    if x.dtype != other.dtype or x.device != other.device:
        return None
    if x.shape == other.shape:
        return torch.empty_like(x) if x.stride() == other.stride() else None
    for wide, narrow in ((x, other), (other, x)):  # a bias or a factor for each row
        if wide.dim() >= narrow.dim() > 0 and wide.is_contiguous() and _broadcasts(narrow.shape, wide.shape):
            return torch.empty_like(wide)
    return None


def _broadcasts(narrow: torch.Size, wide: torch.Size) -> bool:
    """Return whether a tensor of shape ``narrow`` takes shape ``wide`` in an operation with one of that shape."""
    return all(size in (1, whole) for size, whole in zip(reversed(narrow), reversed(wide), strict=False))


def _addmm(bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Any:
    fits = a.size(1) == b.size(0) and a.dtype == b.dtype == bias.dtype and bias.shape[-1:] in ((1,), b.shape[1:])
    return a.new_empty((a.size(0), b.size(1))) if fits else None


def _batch_norm(
    x: torch.Tensor, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    channels = (x.size(1) if training else 0,)
    kept = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    return torch.empty_like(x), x.new_empty(channels, dtype=kept), x.new_empty(channels, dtype=kept)


def _batch_norm_backward(grad: Any, x: torch.Tensor, weight: Any, *rest: Any) -> Any:
    mask = rest[-1]
    kept = weight.dtype if weight is not None else x.dtype
    channels = (x.size(1),)
    return (
        torch.empty_like(x) if mask[0] else None,
        x.new_empty(channels, dtype=kept) if mask[1] else None,
        x.new_empty(channels, dtype=kept) if mask[2] else None,
    )


def _convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    *_: Any,
) -> Any:
    if transposed or x.dim() != weight.dim():
        return None
    last = x.dim() == 4 and any(
        tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous() for tensor in (x, weight)
    )
    dimensions = range(x.dim() - 2)
    stride, padding, dilation = (
        list(value) * len(dimensions) if len(value) == 1 else value for value in (stride, padding, dilation)
    )
    spatial = [
        (x.size(2 + i) + 2 * padding[i] - dilation[i] * (weight.size(2 + i) - 1) - 1) // stride[i] + 1
        for i in dimensions
    ]
    if min(spatial, default=1) < 1 or x.size(1) % weight.size(1) or x.dtype != weight.dtype:
        return None  # an error that the meta kernel words better
    shape = (x.size(0), weight.size(0), *spatial)
    # cuDNN runs and returns channels_last if either operand is; the meta kernel always returns the default layout.
    return x.new_empty(shape).to(memory_format=torch.channels_last) if last else x.new_empty(shape)


def _convolution_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias_sizes: Any, *rest: Any
) -> Any:
    mask = rest[-1]
    return (
        torch.empty_like(x) if mask[0] else None,
        torch.empty_like(weight) if mask[1] else None,
        grad.new_empty(bias_sizes) if mask[2] else None,
    )


_KERNELS: dict[Any, Kernel] = {
    **dict.fromkeys(
        (
            aten.relu.default,
            aten.sigmoid.default,
            aten.silu.default,
            aten.gelu.default,
            aten.hardtanh.default,
            aten.hardswish.default,
            aten.hardsigmoid.default,
            aten.tanh.default,
            aten.leaky_relu.default,
            aten.elu.default,
            aten.softplus.default,
            aten.mish.default,
            aten.sqrt.default,
            aten.rsqrt.default,
            aten.neg.default,
            aten.pow.Tensor_Scalar,
            aten.mul.Scalar,
            aten.div.Scalar,
        ),
        _like_first,
    ),
    **dict.fromkeys(
        (
            aten.relu_.default,
            aten.silu_.default,
            aten.hardtanh_.default,
            aten.hardswish_.default,
            aten.add_.Tensor,
            aten.add_.Scalar,
            aten.mul_.Tensor,
            aten.mul_.Scalar,
            aten.div_.Tensor,
            aten.zero_.default,
            aten.fill_.Scalar,
            aten.sigmoid_.default,
            aten.hardsigmoid_.default,
            aten.leaky_relu_.default,
            aten.elu_.default,
            aten.addcdiv_.default,
            aten.addcmul_.default,
            aten.lerp_.Scalar,
        ),
        _in_place,
    ),
    **dict.fromkeys(
        (
            aten.add.Tensor,
            aten.mul.Tensor,
            aten.sub.Tensor,
            aten.div.Tensor,
            aten.threshold_backward.default,
            aten.sigmoid_backward.default,
            aten.silu_backward.default,
            aten.gelu_backward.default,
            aten.tanh_backward.default,
            aten.hardtanh_backward.default,
            aten.hardswish_backward.default,
            aten.hardsigmoid_backward.default,
        ),
        _like_both,
    ),
    aten.addmm.default: _addmm,
    aten.native_batch_norm.default: _batch_norm,
    aten.native_batch_norm_backward.default: _batch_norm_backward,
    aten.convolution.default: _convolution,
    aten.convolution_backward.default: _convolution_backward,
}
