"""Scratch memory that CUDA libraries take inside one operator: cuDNN convolutions, attention kernels, cuBLAS handles.

Meta tensors never see it. Convolutions: with TF32 or half precision on NCHW tensors cuDNN converts input and output to
NHWC and back in its workspace; what the heuristics choose is not public, the sizes here are a rule fitted on public
measurements (docs/estimator.md says on which).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

aten = torch.ops.aten
MIB = 1 << 20

# cuBLAS' default workspace on compute capability 8.x, CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8.
CUBLAS_WORKSPACE = 8 * MIB + 128 * 1024
_MATMUL = {aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default}


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
    itemsize: int = 4
    channels_last: bool = False


def cublas_handle(func: Any) -> int:
    """Bytes of the handle workspace that the first matrix product of a thread allocates; 0 for other operators."""
    return CUBLAS_WORKSPACE if func in _MATMUL else 0


def workspaces_of(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
) -> tuple[tuple[Workspace, ...], dict[int, Workspace]]:
    """Scratch requests of a call: those made before its outputs exist, and those made right after output ``i``."""
    if func is aten.convolution.default:
        x, weight = args[0], args[1]
        transposed, groups = args[6], args[8]
        if transposed:  # a transposed convolution runs the input-gradient kernel of the plain one
            return (), {0: _convolution("dgrad", out, weight, x, groups)}
        return (), {0: _convolution("forward", x, weight, out, groups)}
    if func is aten.convolution_backward.default:
        grad, x, weight = args[0], args[1], args[2]
        transposed, groups, mask = args[7], args[9], args[10]
        after: dict[int, Workspace] = {}
        if mask[0]:
            after[0] = _convolution("forward", grad, weight, x, groups) if transposed else _convolution("dgrad", x, weight, grad, groups)
        if mask[1]:
            big, small = (grad, x) if transposed else (x, grad)
            after[1] = _convolution("wgrad", big, weight, small, groups)
        return (), after
    return (), {}


def _convolution(direction: str, x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, groups: int) -> Workspace:
    last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    return Workspace(0, direction, tuple(x.shape), tuple(weight.shape), tuple(out.shape), groups, x.element_size(), last)


def conv_workspace(w: Workspace) -> int:
    """Bytes of a request."""
    if not w.direction:
        return w.bytes
    x = w.itemsize * _elements(w.input)
    out = w.itemsize * _elements(w.output)
    kernel = w.weight[2:]
    depthwise = w.groups > 1 and w.weight[1] == 1
    if all(k == 1 for k in kernel) or depthwise:
        return 0
    if w.input[1] % 4 == 0 and w.output[1] % 4 == 0:
        return 2 * (x + out)
    return x if w.direction == "dgrad" else 0


def _elements(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
