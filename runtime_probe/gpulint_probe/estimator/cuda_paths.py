"""Send meta tensors down the paths that CUDA tensors take.

Some composite functions look at the device before they choose a kernel: on meta they take the slow path, which holds
other tensors. A torch function mode replaces those calls by the kernels that a CUDA device runs, and answers calls that
need a value. Autocast, ignored on meta as well, is done here too (see autocast.py).
"""

# PyTorch types these calls and bases in part, and not at all where it is not installed.
# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from gpulint_probe.estimator.autocast import Autocast
from gpulint_probe.estimator.devices import stay_on_meta
from gpulint_probe.estimator.errors import CannotSimulate
from gpulint_probe.estimator.fused import keep_fused
from gpulint_probe.estimator.recurrent import recurrent
from gpulint_probe.estimator.values import value_of

aten = torch.ops.aten


class CudaPaths(TorchFunctionMode):
    """While active, dropout, attention and recurrent layers on meta tensors allocate what they do on CUDA.

    ``note`` receives remarks for the report; ``module`` names the running module; ``cast`` changes the
    arguments of calls as autocast would.
    """

    def __init__(self, note: Callable[[str], None], module: Callable[[], str], cast: Autocast | None = None) -> None:
        super().__init__()
        self._note = note
        self._module = module
        self._cast = cast
        self._patches: list[Any] = []
        self._hooks: list[Any] = []
        self._recomputing = 0

    def __enter__(self) -> CudaPaths:
        # Python functions hand themselves to the mode whole, and then run with the mode off: what they call inside
        # (dropout in multi_head_attention_forward) would be missed. With this check off they run their body under the
        # mode.
        for owner in (torch.nn.functional, torch.functional, torch._tensor):
            for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"):
                if hasattr(owner, name):
                    patch = mock.patch.object(owner, name, lambda *_: False)
                    patch.start()
                    self._patches.append(patch)
        register = torch.nn.modules.module
        self._hooks = [
            register.register_module_forward_pre_hook(self._enter_recomputation),
            register.register_module_forward_hook(self._leave_recomputation, always_call=True),
        ]
        keep_fused()
        super().__enter__()
        return self

    def _enter_recomputation(self, *_: Any) -> None:
        # The autograd engine runs without function modes, so a block that is recomputed in the backward (activation
        # checkpointing) needs this one again.
        if torch._C._current_autograd_node() is not None:
            if not self._recomputing:
                super().__enter__()
            self._recomputing += 1

    def _leave_recomputation(self, *_: Any) -> None:
        if self._recomputing:
            self._recomputing -= 1
            if not self._recomputing:
                super().__exit__(None, None, None)
                if self._cast is not None:  # the recomputation had an autocast context of its own
                    self._cast.clear()

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        while self._hooks:
            self._hooks.pop().remove()
        while self._patches:
            self._patches.pop().stop()

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("cuda", "cpu") and args and isinstance(args[0], torch.Tensor) and args[0].device.type == "meta":
            return args[0]
        args, kwargs = stay_on_meta(name, args, kwargs)
        if self._cast is not None:
            args, kwargs = self._cast(name, args, kwargs)
        path = _PATHS.get(name)
        if path is not None and args and isinstance(args[0], torch.Tensor) and args[0].device.type == "meta":
            return getattr(self, path.__name__)(func, args, kwargs)
        return func(*args, **kwargs)

    def dropout(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x, p, train = _bind(("input", "p", "train"), args, kwargs)
        if not train or p == 0 or x.numel() == 0:
            return x
        return torch.native_dropout(x, p, True)[0]

    def dropout_(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x, p, train = _bind(("input", "p", "train"), args, kwargs)
        if not train or p == 0:
            return x
        noise = torch.empty_like(x).bernoulli_(1 - p).div_(1 - p)
        return x.mul_(noise)

    def attention(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        q, k, v, mask, p, causal = _bind(names, args, kwargs, defaults=(None, None, None, None, 0.0, False))
        return scaled_dot_product_attention(q, k, v, mask, p, causal, kwargs.get("scale"))

    def recurrent(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if (
            isinstance(args[1], torch.Tensor) and args[1].dim() == 1
        ):  # packed sequences: data, batch_sizes, hx, params, ...
            raise CannotSimulate("packed sequences have lengths that depend on values", func.__name__, self._module())
        return recurrent(func.__name__, args, kwargs)

    def value(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = func.__name__
        known = [value_of(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
        if all(value is not None for value in known):
            return func(*known, **kwargs)
        module = self._module()
        where = f" in module '{module}'" if module else ""
        if name in ("__bool__", "is_nonzero", "equal", "allclose"):
            self._note(f"a branch on a tensor's value{where}: taken as False")
            return False
        if args[0].is_floating_point() and name in ("item", "__float__"):
            self._note(f".item() on a float{where}: taken as 1.0")
            return 1.0
        raise CannotSimulate(
            "the program needs the value of a tensor, and shapes may depend on it", f"Tensor.{name}", module
        )


def scaled_dot_product_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    p: float,
    causal: bool,
    scale: float | None,
) -> torch.Tensor:
    """Attention by the kernel that CUDA chooses (aten/native/transformers/cuda/sdp_utils.cpp).

    Flash for half precision without a mask, memory-efficient otherwise, math where neither takes the shapes. ``q`` is
    (..., heads, length, size).
    """
    half = q.dtype in (torch.float16, torch.bfloat16)
    fused = q.dim() == 4 and q.dtype in (torch.float16, torch.bfloat16, torch.float32) and q.size(-1) == k.size(-1)
    backends = torch.backends.cuda
    if fused and half and mask is None and q.size(-1) == v.size(-1) <= 256 and backends.flash_sdp_enabled():
        pad = -q.size(-1) % 8
        if pad:
            scale = scale or 1 / math.sqrt(q.size(-1))
            size = v.size(-1)
            q, k, v = (torch.nn.functional.pad(t, (0, pad)) for t in (q, k, v))
            return aten._scaled_dot_product_flash_attention(q, k, v, p, causal, False, scale=scale)[0][..., :size]
        return aten._scaled_dot_product_flash_attention(q, k, v, p, causal, False, scale=scale)[0]
    if q.dim() == 4 and k.size(1) != q.size(1):  # grouped queries; only flash reads the shared heads in place
        repeats = q.size(1) // k.size(1)
        k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
    aligned = q.size(-1) % (8 if half else 4) == 0 and v.size(-1) % (8 if half else 4) == 0
    if fused and aligned and backends.mem_efficient_sdp_enabled():
        if mask is not None:
            mask = _efficient_bias(mask, q, k)
        needs_grad = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))
        return aten._scaled_dot_product_efficient_attention(q, k, v, mask, needs_grad, p, causal, scale=scale)[0]
    return _math_attention(q, k, v, mask, p, causal, scale)


def _efficient_bias(mask: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill_(mask, -math.inf)
    length = k.size(-2)
    if length % 16:  # the kernel wants aligned rows, so the last dimension is padded and sliced back
        mask = torch.nn.functional.pad(mask, (0, 16 - length % 16))[..., :length]
    return mask.expand(*q.shape[:-1], length)


def _math_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    p: float,
    causal: bool,
    scale: float | None,
) -> torch.Tensor:
    factor = math.sqrt(scale or 1 / math.sqrt(q.size(-1)))
    scores = (q * factor) @ (k.transpose(-2, -1) * factor)
    if causal:
        mask = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool, device=q.device).tril()
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill_(mask, -math.inf)
        scores = scores + mask
    weights = torch.softmax(scores, -1)
    if p > 0:
        weights = torch.native_dropout(weights, p, True)[0]
    return weights @ v


def _bind(
    names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any], defaults: tuple[Any, ...] = ()
) -> list[Any]:
    values = list(args[: len(names)])
    for position in range(len(values), len(names)):
        default = defaults[position] if defaults else None
        values.append(kwargs.get(names[position], default))
    return values


_PATHS: dict[str, Callable[[CudaPaths, Any, tuple[Any, ...], dict[str, Any]], Any]] = {
    "dropout": CudaPaths.dropout,
    "dropout_": CudaPaths.dropout_,
    "scaled_dot_product_attention": CudaPaths.attention,
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), CudaPaths.recurrent),
    **dict.fromkeys(("item", "tolist", "numpy", "is_nonzero", "equal", "allclose"), CudaPaths.value),
    **dict.fromkeys(("__bool__", "__float__", "__int__", "__index__", "__complex__"), CudaPaths.value),
}
