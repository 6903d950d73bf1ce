"""Keep a program on the meta device that names CUDA or CPU devices of its own."""

# PyTorch types these calls and bases in part, and not at all where it is not installed.
# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_MOVES = frozenset({"to", "_parse_to", "cuda", "cpu"})


def stay_on_meta(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with CUDA devices replaced by meta, and with moves of meta tensors kept on meta.

    Tensors made on the CPU by name stay there: programs read values from them while they build a model.
    """
    moves = name in _MOVES and (name == "_parse_to" or (bool(args) and _is_meta(args[0])))
    if not moves and not any(_is_cuda(value) for value in (*args, *kwargs.values())):
        return args, kwargs

    def replace(value: Any) -> Any:
        cpu = moves and (
            value == "cpu" if isinstance(value, str) else isinstance(value, torch.device) and value.type == "cpu"
        )
        return torch.device("meta") if cpu or _is_cuda(value) else value

    return tuple(replace(value) for value in args), {key: replace(value) for key, value in kwargs.items()}


class BuildOnMeta(TorchFunctionMode):
    """While active, tensors are made on the meta device, whatever CUDA device the program names."""

    def __enter__(self) -> BuildOnMeta:
        self._default = torch.device("meta")
        self._default.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self._default.__exit__(*exc)

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in ("cuda", "cpu") and args and _is_meta(args[0]):
            return args[0]
        args, kwargs = stay_on_meta(name, args, kwargs or {})
        return func(*args, **kwargs)


def _is_meta(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "meta"


def _is_cuda(value: Any) -> bool:
    if isinstance(value, str):
        return value == "cuda" or value.startswith("cuda:")
    return isinstance(value, torch.device) and value.type == "cuda"
