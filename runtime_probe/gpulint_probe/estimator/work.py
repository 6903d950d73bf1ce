"""What the calls of a step do: floating point operations, bytes through memory and kernel launches, from shapes.

A call's work is what CUDA's kernels must do at least: every input read once and every output written once.
How much of a card's peak they reach is the step-time model's question (steptime.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

aten = torch.ops.aten

MULTI_TENSOR = 48
"""Tensors that one multi-tensor launch takes; the number differs by the lists (MultiTensorApply.cuh)."""


@dataclass(frozen=True, slots=True)
class Work:
    """One kernel or several of one kind.

    ``flops`` counts a multiply-add as two. A matrix product is ``batch`` times (m x k) by (k x n); a convolution is the
    product that computes it (implicit GEMM). ``itemsize`` is that of the elements computed on.
    """

    kind: str
    bytes: int
    flops: int = 0
    launches: int = 1
    itemsize: int = 4
    m: int = 0
    n: int = 0
    k: int = 0
    batch: int = 1


def work_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[Work, ...]:
    """The work of a call; nothing for views and for allocations that no kernel fills."""
    name = func._schema.name.partition("::")[2]
    if func.is_view or name in _FREE:
        return ()
    special = _SPECIAL.get(name)
    if special is not None:
        found: tuple[Work, ...] = special(name, args, out)
        return found
    inputs, outputs = _tensors((args, kwargs)), _tensors(out)
    if name.startswith(("_foreach_", "_fused_ad", "_fused_sgd", "_amp_foreach")):
        return _foreach(name, args, outputs)
    if not outputs and not inputs:
        return ()
    main = outputs[0] if outputs else inputs[0]
    moved = _moved(outputs or inputs[:1])
    if name in _FILLS:
        return (Work("fill", moved, itemsize=main.element_size()),)
    moved += _moved(inputs if name not in _COPIES else inputs[-1:] if name == "copy_" else inputs[:1])
    kind = _KINDS.get(name, "pointwise")
    if kind.startswith(("batch_norm", "pool")) and _channels_last(main):
        kind = kind.replace(".", "_last.")
    if kind == "copy" and _transposes(inputs, main):
        kind = "transpose"
    return (Work(kind, moved, itemsize=main.element_size()),)


def _matmul(name: str, args: tuple[Any, ...], out: Any) -> tuple[Work, ...]:
    a, b = (args[1], args[2]) if name in ("addmm", "baddbmm") else (args[0], args[1])
    batch = a.size(0) if a.dim() == 3 else 1
    m, k, n = a.size(-2), a.size(-1), b.size(-1)
    return (_product("matmul" if batch == 1 else "bmm", _moved([a, b, out]), a.element_size(), m, n, k, batch),)


def _grouped_matmul(name: str, args: tuple[Any, ...], out: Any) -> tuple[Work, ...]:
    a, b = args[0], args[1]
    groups = max(b.size(0) if b.dim() == 3 else out.size(0), 1)
    rows = a.size(0) if b.dim() == 3 else a.size(1)  # of all groups together; their sizes are data
    m, k, n = (
        (max(rows // groups, 1), a.size(-1), b.size(-1)) if b.dim() == 3 else (a.size(0), rows // groups, b.size(1))
    )
    return (_product("bmm", _moved([a, b, out]), a.element_size(), m, n, k, groups),)


def _product(kind: str, moved: int, itemsize: int, m: int, n: int, k: int, batch: int = 1) -> Work:
    return Work(kind, moved, 2 * batch * m * n * k, 1, itemsize, m, n, k, batch)


def _convolution(name: str, args: tuple[Any, ...], out: Any) -> tuple[Work, ...]:
    x, weight, stride, transposed, groups = args[0], args[1], args[3], args[6], args[8]
    if transposed:
        return (_conv("dgrad", out, weight, x, groups, max(stride) > 1),)
    return (_conv("forward", x, weight, out, groups, max(stride) > 1),)


def _convolution_backward(name: str, args: tuple[Any, ...], out: Any) -> tuple[Work, ...]:
    grad, x, weight, transposed, groups, mask = args[0], args[1], args[2], args[7], args[9], args[10]
    strided = max(args[4]) > 1
    small, large = (grad, x) if not transposed else (x, grad)
    found = []
    if mask[0]:
        found.append(_conv("forward" if transposed else "dgrad", large, weight, small, groups, strided))
    if mask[1]:
        found.append(_conv("wgrad", large, weight, small, groups, strided))
    if mask[2]:
        found.append(Work("reduce", _moved([grad]), itemsize=grad.element_size()))
    return tuple(found)


def _conv(direction: str, x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, groups: int, strided: bool) -> Work:
    taps = math.prod(weight.shape[2:])
    pixels = y.size(0) * math.prod(y.shape[2:])
    inner, outer = weight.size(1), weight.size(0) // groups
    if groups > 1:
        # Kernels for groups differ by the taps of the kernel and by the channels of a group.
        kind = (
            f"depthwise{_bucket(math.isqrt(taps), 3, 5, 7)}"
            if inner == 1
            else f"grouped{_bucket(inner, 8, 16, 32, 64)}"
        )
        kind += "s" if strided and inner == 1 else ""
    else:
        kind = "pointwise_conv" if taps == 1 else "conv"
    m, n, k = {
        "forward": (pixels, outer, inner * taps),
        "dgrad": (x.size(0) * math.prod(x.shape[2:]), inner, outer * taps),
        "wgrad": (outer, inner * taps, pixels),
    }[direction]
    flops = 2 * groups * pixels * outer * inner * taps
    layout = "" if _channels_last(x) or _channels_last(y) or _channels_last(weight) else "_nchw"
    moved = _moved([x, weight, y])
    return Work(f"{kind}{layout}.{direction}", moved, flops, 1, x.element_size(), m, n, k, groups)


def _bucket(value: int, *limits: int) -> int:
    return next((limit for limit in limits if value <= limit), 2 * limits[-1])


def _channels_last(x: torch.Tensor) -> bool:
    if x.dim() != 4:
        return False
    return x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def _attention(name: str, args: tuple[Any, ...], out: Any) -> tuple[Work, ...]:
    backward = name.endswith("backward")
    q, k, v = (args[1], args[2], args[3]) if backward else (args[0], args[1], args[2])
    batch, rows, columns = math.prod(q.shape[:-2]), q.size(-2), k.size(-2)
    flops = 2 * batch * rows * columns * (q.size(-1) + v.size(-1)) * (2 if backward else 1)
    tensors = [q, k, v] * (2 if backward else 1)
    moved = _moved(tensors) + (2 if backward else 1) * _moved([v])
    kind = "attention.backward" if backward else "attention.forward"
    return (Work(kind, moved, flops, 1, q.element_size(), rows, columns, q.size(-1), batch),)


pending: list[Work] = []
"""Work of what runs as one CUDA operator and as none on meta tensors; the next call takes it along."""


def recurrent_work(weights: Iterable[torch.Tensor], shape: tuple[int, int, int], direction: str) -> None:
    """Add the work of cuDNN's recurrent layers; ``shape`` is (steps, sequences, hidden size).

    ``direction`` is "forward" or "backward", which does twice as much.
    """
    steps, rows, hidden = shape
    matrices = [weight for weight in weights if weight.dim() == 2]
    factor = 2 if direction == "backward" else 1
    flops = 2 * factor * steps * rows * sum(weight.numel() for weight in matrices)
    moved = factor * steps * sum(weight.numel() + rows * (hidden + sum(weight.shape)) for weight in matrices)
    size = matrices[0].element_size()
    launches = factor * steps * max(1, len(matrices) // 2)
    wide = matrices[0].size(0)
    pending.append(Work(f"recurrent.{direction}", moved * size, flops, launches, size, rows, wide, hidden, steps))


def _foreach(name: str, args: tuple[Any, ...], outputs: list[torch.Tensor]) -> tuple[Work, ...]:
    lists = [value for value in args if isinstance(value, list | tuple) and value]
    tensors = _tensors(lists)
    if not tensors:
        return ()
    first = _tensors(lists[:1])
    moved = _moved(tensors) + (_moved(first) if name.endswith("_") else _moved(outputs))
    launches = max(1, -(-len(first) // MULTI_TENSOR))
    return (Work("optimizer", moved, 0, launches, first[0].element_size()),)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    return [tensor for item in items for tensor in _tensors(item)]


def _moved(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of tensors; an expanded tensor is read from the cache after the first time."""
    return sum(_extent(tensor) for tensor in tensors)


def _extent(tensor: torch.Tensor) -> int:
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= size if stride or size == 0 else 1
    return elements * tensor.element_size()


def _transposes(inputs: list[torch.Tensor], out: torch.Tensor) -> bool:
    x = inputs[-1] if inputs else out
    if x.shape != out.shape:
        return False
    return any(a != b for a, b, size in zip(x.stride(), out.stride(), x.shape, strict=True) if size > 1)


_COPIES = frozenset({"copy_", "clone", "_to_copy", "contiguous"})
_FILLS = frozenset(
    "zeros ones full zeros_like ones_like full_like zero_ fill_ new_zeros arange new_full new_ones bernoulli_ "
    "uniform_ normal_".split()
)
_FREE = frozenset(
    "empty empty_like empty_strided new_empty new_empty_strided empty_permuted set_ resize_ lift_fresh detach detach_ "
    "_unsafe_view _reshape_alias sym_size is_pinned _local_scalar_dense resolve_conj resolve_neg".split()
)
_OPERATORS = {
    "copy": "copy_ clone _to_copy cat stack constant_pad_nd split_with_sizes_copy slice_backward select_backward "
    "repeat unfold_backward as_strided_scatter",
    "index": "index gather roll index_select flip embedding select_scatter",
    "scatter": "index_put index_put_ _index_put_impl_ index_add index_add_ scatter_add embedding_dense_backward "
    "scatter scatter_ scatter_add_",
    "reduce": "sum mean amax amin var std var_mean linalg_vector_norm norm argmax max min",
    "batch_norm.forward": "native_batch_norm cudnn_batch_norm",
    "batch_norm.backward": "native_batch_norm_backward cudnn_batch_norm_backward",
    "layer_norm.forward": "native_layer_norm native_group_norm _fused_rms_norm",
    "layer_norm.backward": "native_layer_norm_backward native_group_norm_backward _fused_rms_norm_backward",
    "softmax.forward": "_softmax _log_softmax _safe_softmax",
    "softmax.backward": "_softmax_backward_data _log_softmax_backward_data",
    "pool.forward": "max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d upsample_bilinear2d upsample_nearest2d "
    "upsample_bicubic2d grid_sampler_2d",
    "pool.backward": "max_pool2d_with_indices_backward avg_pool2d_backward _adaptive_avg_pool2d_backward "
    "upsample_bilinear2d_backward upsample_nearest2d_backward upsample_bicubic2d_backward",
}
_KINDS = {name: kind for kind, names in _OPERATORS.items() for name in names.split()}
_SPECIAL: dict[str, Any] = {
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm"), _matmul),
    "_grouped_mm": _grouped_matmul,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_flash_attention_backward",
            "_scaled_dot_product_efficient_attention_backward",
        ),
        _attention,
    ),
}
