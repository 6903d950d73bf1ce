"""Automatic mixed precision on meta tensors.

``torch.autocast`` has no meta device: under it meta tensors keep their type and the estimate would be that of float32.
This applies the casts of CUDA autocast to calls as a torch function mode sees them. The lists are those of "CUDA Ops
that can autocast to ..." in PyTorch's "Automatic Mixed Precision" reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpulint_probe.estimator.inputs import tensors_in

LOWER_PRECISION = frozenset(
    "__matmul__ __rmatmul__ addbmm addmm addmv addr baddbmm bmm chain_matmul multi_dot conv1d conv2d conv3d "
    "conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution einsum linear matmul mm mv prelu "
    "scaled_dot_product_attention lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell".split()
)
FLOAT32 = frozenset(
    "__pow__ __rdiv__ __rpow__ __rtruediv__ acos asin binary_cross_entropy_with_logits cosh cosine_embedding_loss "
    "cdist cosine_similarity cross_entropy cross_entropy_loss cumprod cumsum dist erfinv exp expm1 group_norm "
    "hinge_embedding_loss kl_div l1_loss layer_norm log log10 log1p log2 log_softmax logsumexp "
    "margin_ranking_loss mse_loss multilabel_margin_loss multi_margin_loss nll_loss nll_loss_nd norm nuclear_norm "
    "poisson_nll_loss pow prod reciprocal rsqrt sinh smooth_l1_loss soft_margin_loss softmax softmin softplus sum "
    "renorm tan triplet_margin_loss rms_norm huber_loss pdist upsample_nearest1d upsample_nearest2d upsample_nearest3d "
    "upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d".split()
)
# Of these only inputs of different types matter: autocast widens them to the widest. Torch does the same by type
# promotion for all but these, which would raise.
PROMOTE = frozenset(
    "addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot cat stack".split()
)


class Autocast:
    """Callable that maps a call to the arguments which CUDA autocast would pass on.

    Casts of float32 leaves that require gradients are cached until ``clear()``, as autocast does until the context
    ends. ``on_copy`` receives each such copy of a weight.
    """

    def __init__(self, dtype: torch.dtype, on_copy: Callable[[torch.Tensor], None] = lambda _: None) -> None:
        self.dtype = dtype
        self._on_copy = on_copy
        self._cache: dict[int, torch.Tensor] = {}

    def clear(self) -> None:
        """Forget the cached casts; to be called where the autocast context would end."""
        self._cache.clear()

    def __call__(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if name in LOWER_PRECISION:
            return self._map(args, kwargs, self.dtype)
        if name in FLOAT32 and kwargs.get("dtype") is None:
            return self._map(args, kwargs, torch.float32)
        if name in PROMOTE:
            types = {t.dtype for t in tensors_in((args, kwargs)) if t.is_floating_point()}
            if len(types) > 1:
                return self._map(args, kwargs, torch.float32)
        return args, kwargs

    def _map(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(self._cast(a, dtype) for a in args), {k: self._cast(v, dtype) for k, v in kwargs.items()}

    def _cast(self, value: Any, dtype: torch.dtype) -> Any:
        if isinstance(value, tuple | list) and any(isinstance(v, torch.Tensor) for v in value):
            return type(value)(self._cast(v, dtype) for v in value)
        if not isinstance(value, torch.Tensor) or value.device.type != "meta":
            return value
        if value.dtype == dtype or value.dtype not in (torch.float16, torch.bfloat16, torch.float32):
            return value
        if not (value.is_leaf and value.requires_grad and value.dtype == torch.float32):
            return value.to(dtype)
        if id(value) not in self._cache:
            self._cache[id(value)] = value.to(dtype)
            self._on_copy(self._cache[id(value)])
        return self._cache[id(value)]
