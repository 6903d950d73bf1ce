"""Scratch memory that CUDA libraries take inside one operator: cuDNN convolutions, attention kernels, cuBLAS handles.

Meta tensors never see it, and what cuDNN's heuristics choose is not public. The rule for convolutions follows from what
tensor cores need, channels-last copies of the tensors of an NCHW convolution, and was checked against public
measurements of networks that it was not made on (docs/estimator.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

aten = torch.ops.aten
MIB = 1 << 20

# cuBLAS' default workspace on compute capability 8.x, CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8.
CUBLAS_WORKSPACE = 8 * MIB + 128 * 1024
_MATMUL = {aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default}
_NORMS = {aten.native_layer_norm.default, aten.native_layer_norm_backward.default}
# Below this many channels on either side the weight gradient is too small to fill the GPU and is reduced from parts.
_SPLIT_CHANNELS = 384
# Images come with 1 to 3 channels: kernels that read NCHW directly serve those.
_FIRST_LAYER_CHANNELS = 3


@dataclass(frozen=True, slots=True)
class Workspace:
    """One request for scratch memory: ``bytes`` where it is known, else a convolution to be judged by conv_workspace.

    ``direction`` is forward, dgrad, wgrad; shapes are those of input, weight and output (N, C, spatial...).
    """

    bytes: int = 0
    direction: str = ""
    input: tuple[int, ...] = ()
    weight: tuple[int, ...] = ()
    output: tuple[int, ...] = ()
    groups: int = 1
    strided: bool = False
    itemsize: int = 4
    channels_last: bool = False


def cublas_handle(func: Any) -> int:
    """Bytes of the handle workspace that the first matrix product of a thread allocates; 0 for other operators."""
    return CUBLAS_WORKSPACE if func in _MATMUL else 0


def workspaces_of(func: Any, args: tuple[Any, ...], out: Any) -> dict[int, Workspace]:
    """Scratch requests of a call, each made right after output ``i`` was allocated."""
    if func is aten.convolution.default:
        x, weight, strided, transposed, groups = args[0], args[1], max(args[3]) > 1, args[6], args[8]
        if transposed:  # a transposed convolution runs the input-gradient kernel of the plain one
            return {0: _convolution("dgrad", out, weight, x, groups, strided)}
        return {0: _convolution("forward", x, weight, out, groups, strided)}
    if func is aten.convolution_backward.default:
        grad, x, weight, strided, transposed, groups, mask = (
            args[0],
            args[1],
            args[2],
            max(args[4]) > 1,
            args[7],
            args[9],
            args[10],
        )
        requests: dict[int, Workspace] = {}
        large, small = (grad, x) if transposed else (x, grad)
        if mask[0]:
            requests[0] = _convolution("forward" if transposed else "dgrad", large, weight, small, groups, strided)
        if mask[1]:
            requests[1] = _convolution("wgrad", large, weight, small, groups, strided)
        return requests
    if func is aten._scaled_dot_product_flash_attention_backward.default:
        # Gradients of the queries are summed in float32, with lengths and head sizes rounded up to the kernel's tiles.
        batch, heads, length, size = args[1].shape
        rows = batch * heads * -(-length // 128) * 128
        return {0: Workspace(4 * rows * (-(-size // 32) * 32 + 1))}
    if func in _NORMS:
        # The kernels read contiguous rows: what is laid out otherwise (channels-last images) is copied first.
        copied = [x for x in args[:2] if isinstance(x, torch.Tensor) and not x.is_contiguous()]
        return {0: Workspace(sum(x.numel() * x.element_size() for x in copied))} if copied else {}
    return {}


def _convolution(
    direction: str, x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, groups: int, strided: bool
) -> Workspace:
    last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    return Workspace(
        0, direction, tuple(x.shape), tuple(weight.shape), tuple(out.shape), groups, strided, x.element_size(), last
    )


def conv_workspace(request: Workspace) -> int:
    """Bytes of a request.

    A convolution copies its input and output to channels-last; the gradient of the weights takes as much again where it
    is summed up from parts. Pointwise kernels are matrix products and need no copies, except backward through a stride;
    grouped kernels need them backward only. Nothing for depthwise kernels, images, and tensors that are channels-last.
    """
    if not request.direction:
        return request.bytes
    pointwise = all(size == 1 for size in request.weight[2:])
    depthwise = request.groups > 1 and request.weight[1] == 1
    if depthwise or request.channels_last or request.input[1] <= _FIRST_LAYER_CHANNELS:
        return 0
    if pointwise and (request.direction == "forward" or not request.strided):
        return 0
    if request.groups > 1 and request.direction == "forward":
        return 0
    copies = request.itemsize * (math.prod(request.input) + math.prod(request.output))
    parts = (
        request.direction == "wgrad"
        and request.groups == 1
        and not request.strided
        and min(request.weight[:2]) <= _SPLIT_CHANNELS
    )
    return 2 * copies if parts else copies
