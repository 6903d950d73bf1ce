"""Tensors on ``cuda`` as meta tensors: the function mode and the tracer that a script runs under."""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from gpulint_probe.estimator.autocast import Autocast
from gpulint_probe.estimator.cuda_paths import CudaPaths
from gpulint_probe.estimator.errors import CannotSimulate
from gpulint_probe.estimator.script.sizes import assumed
from gpulint_probe.estimator.trace import Tracer
from gpulint_probe.estimator.values import value_of

_LARGEST_READ = 1 << 24
_META = torch.device("meta")


class ScriptTracer(Tracer):
    """A tracer that finds the phase itself: nobody tells it where forward and backward begin."""

    def __init__(self, module: Callable[[], str], line: Callable[[], str] = str) -> None:
        """``line`` names the line of the script that runs now."""
        self.stage = "setup"
        self._line = line
        self._shapes: dict[int, tuple[int, ...]] = {}
        super().__init__(module)

    def _allocate(self, tensor: torch.Tensor, call: int) -> None:
        key = self._next_key
        super()._allocate(tensor, call)
        if self._next_key > key and self.stage == "setup" and tensor.is_floating_point():
            self._shapes[key] = tuple(tensor.shape)

    def _output(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], module: str) -> Any:
        try:
            return super()._output(func, args, kwargs, module)
        except CannotSimulate:
            found = assumed(func, args, kwargs)
            if found is None:
                raise
            text, out = found
            self.trace.note(f"{text}{self._line()}")
            return out

    def name_kept(self, weights: Iterable[torch.Tensor], shapes: set[tuple[int, ...]], category: str) -> None:
        """Name what is on the device and has no name yet: ``weights``, and what was made before the first step in
        one of ``shapes``.
        """
        known = self.trace.categories
        for tensor in weights:
            held = self._live.get(tensor.untyped_storage()._cdata) if tensor.device.type == "meta" else None
            if held is not None:
                known.setdefault(held[0], category)
        for key, _ in self._live.values():
            if self._shapes.get(key) in shapes:
                known.setdefault(key, category)

    @property
    def phase(self) -> str:
        """ "optimizer" and "ended" are set from outside; the autograd engine runs the backward."""
        if self.stage not in ("optimizer", "ended") and torch._C._current_autograd_node() is not None:
            return "backward"
        return self.stage

    @phase.setter
    def phase(self, value: str) -> None:
        self.stage = value


class ScriptMode(CudaPaths):
    """CudaPaths for whole scripts: device "cuda" is meta, tensors there say that they are on CUDA, values can be read.

    A value that only a GPU would know is assumed (1.0, 0, zeros), and the line that reads it is noted.
    """

    def __init__(
        self, note: Callable[[str], None], module: Callable[[], str], line: Callable[[], str],
        copied: Callable[[torch.Tensor], None] = lambda _: None, forced: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        """``line`` names the line of the script that runs now.

        ``copied`` is called with copies of weights that autocast keeps.

        ``forced``: the type of an autocast that the script does not ask for.
        """
        super().__init__(note, module)
        self.lowered: torch.dtype | None = None
        self._copied = copied
        self._forced = forced
        self._line = line

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.device:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        first: Any = args[0] if args else None
        on_meta = isinstance(first, torch.Tensor) and first.device.type == "meta"
        if name == "__get__" and on_meta:
            return self._property(func, first)
        self._follow_autocast()
        if name == "cuda" and isinstance(first, torch.Tensor):
            return first if on_meta else first.to(_META)
        if name in ("cpu", "numpy", "tolist", "item", "__array__") and on_meta:
            return self._read(name, first)
        if name == "pin_memory" and isinstance(first, torch.Tensor):
            return first
        if kwargs.get("pin_memory") is True:
            kwargs = {**kwargs, "pin_memory": False}
        if name == "copy_" and len(args) > 1 and not on_meta and _is_meta(args[1]):
            return first  # offloaded: what the host holds has no values
        if name in ("to", "_parse_to"):
            args, kwargs, back = _moved(name, args, kwargs)
            if back and on_meta:
                return func(self._read("cpu", first), *args[1:], **kwargs)
            if on_meta and name == "to" and not _names_something(args[1:], kwargs):
                return first
            return func(*args, **kwargs)
        if isinstance(kwargs.get("device"), int) and not isinstance(kwargs["device"], bool):
            kwargs = {**kwargs, "device": _META}
        return super().__torch_function__(func, types, args, kwargs)

    def value(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = func.__name__
        known = [value_of(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
        if all(value is not None for value in known):
            return func(*known, **kwargs)
        if name in ("__bool__", "is_nonzero", "equal", "allclose"):
            self._note(f"a branch on a tensor's value is taken as False{self._line()}")
            return False
        return self._read("item", args[0])

    def _property(self, func: Any, tensor: torch.Tensor) -> Any:
        owner = getattr(getattr(func, "__self__", None), "__name__", "")
        answers: dict[str, Any] = {"device": torch.device("cuda", 0), "is_cuda": True, "is_meta": False}
        return answers[owner] if owner in answers else func(tensor)

    def _follow_autocast(self) -> None:
        enabled = torch.is_autocast_enabled("cuda")
        wanted = torch.get_autocast_dtype("cuda") if enabled else self._forced
        self.lowered = self.lowered or (wanted if enabled else None)
        if wanted is None:
            self._cast = None
        elif self._cast is None or self._cast.dtype != wanted:
            self._cast = Autocast(wanted, self._copied)

    def _read(self, name: str, tensor: torch.Tensor) -> Any:
        known = value_of(tensor)
        if known is None:
            if tensor.numel() > _LARGEST_READ:
                return _large(tensor) if name == "cpu" else tensor
            if name != "cpu":
                self._note(f"values read from the GPU are assumed (floats 1.0, integers 0){self._line()}")
            fill = 1 if tensor.is_floating_point() else 0
            known = torch.full(tensor.shape, fill, dtype=tensor.dtype, device="cpu")
        if name == "cpu":
            return known
        if name in ("numpy", "__array__"):
            return known.detach().numpy()
        return known.tolist() if name == "tolist" else known.item()


def _is_meta(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "meta"


def _large(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the host that takes no memory before it is written to."""
    try:
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")
    except RuntimeError:
        return tensor


def _moved(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """The arguments of ``to`` with CUDA as meta, and whether it is a move to the host."""
    back = False

    def replace(value: Any, position: int) -> Any:
        nonlocal back
        if isinstance(value, bool):
            return value
        if isinstance(value, int) and position == (0 if name == "_parse_to" else 1):
            return _META
        kind = value.partition(":")[0] if isinstance(value, str) else getattr(value, "type", None)
        if isinstance(value, torch.Tensor) or not isinstance(kind, str):
            return value
        back = back or kind == "cpu"
        return _META if kind == "cuda" else value

    changed = tuple(replace(value, index) for index, value in enumerate(args))
    named = {key: replace(value, 1 if key == "device" else -1) for key, value in kwargs.items()}
    return changed, {k: _META if k == "device" and isinstance(v, int) else v for k, v in named.items()}, back


def _names_something(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether ``to`` requests more than the device that a tensor is on already."""
    wanted = [value for value in (*args, *kwargs.values()) if value is not None and not isinstance(value, bool)]
    return any(value != _META for value in wanted)
