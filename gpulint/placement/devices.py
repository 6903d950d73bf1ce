"""Which device an expression names."""

from __future__ import annotations

import ast
import enum
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import cyclic
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_DTYPES = frozenset(
    (
        "float16 float32 float64 bfloat16 half float double int int8 int16 int32 int64 uint8 long short bool "
        "complex64 complex128 float8_e4m3fn float8_e5m2 dtype torch_dtype weight_dtype model_dtype compute_dtype "
        "ptdtype precision"
    ).split()
)
_DTYPE_NAME = regex.compile(r"dtype|precision", re.IGNORECASE)
_GPU_NAME = regex.compile(
    r"(^|_)(cuda|gpu|rank|local_rank|device_id|gpu_id|device_index|current_device)(_|$)|^gpu", re.IGNORECASE
)
_TAKES_CUDA = frozenset({"torch"})
_TAKES_GPU = frozenset({"paddle", "tensorflow", "jax", "mxnet", "mindspore", "oneflow"})
"""Packages that call a GPU ``gpu``."""


class Device(enum.Enum):
    """What a device expression may be."""

    CUDA = "cuda"
    CPU = "cpu"
    XPU = "xpu"
    OTHER = "other accelerator"
    UNKNOWN = "unknown"


_NO_DEVICE: frozenset[Device] = frozenset()


def _or_unknown(found: frozenset[Device], *_: object) -> frozenset[Device]:
    return found or frozenset({Device.UNKNOWN})


class Devices:
    """What expressions of one project say of devices."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    @cyclic(_NO_DEVICE, _or_unknown)
    def of(self, module: ModuleIndex, node: ast.AST) -> frozenset[Device]:
        """The devices that an expression may name."""
        origins = self._project.fact(Resolver).points_to(module, node)
        return frozenset[Device]().union(*(self._classify(ref) for ref in origins))

    def may_be_gpu(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether the expression may name a GPU."""
        return bool(self.of(module, node) & {Device.CUDA, Device.XPU, Device.UNKNOWN})

    def _classify(self, ref: NodeRef) -> set[Device]:
        node = ref.node
        match node:
            case ast.Constant(value=str(text)) | ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]) if (
                ref.module.packages & _TAKES_CUDA and not ref.module.packages & _TAKES_GPU and _head(text) == "gpu"
            ):
                return {Device.OTHER}  # PyTorch has no such device, and raises an error
            case ast.Constant(value=str(text)):
                return {_named(text)}
            case ast.Constant(value=bool() | None):
                return {Device.UNKNOWN}
            case ast.Constant(value=int()):
                return {Device.CUDA}
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
                return {_named(text)}
            case ast.BinOp(left=left):
                return self._classify(NodeRef(ref.module, left))
            case ast.Call():
                return self._of_call(ref, node)
        known = {
            _named(str(value.value))
            for value in self._project.fact(Constants).of(ref.module, node).values
            if isinstance(value.value, str)
        }
        if known:
            return known
        if isinstance(node, ast.expr) and _GPU_NAME.search(last_name(node)):
            return {Device.CUDA}
        if isinstance(node, ast.arg) and _GPU_NAME.search(node.arg):
            return {Device.CUDA}
        return {Device.UNKNOWN}

    def _of_call(self, ref: NodeRef, node: ast.Call) -> set[Device]:
        names = self._project.fact(Resolver).call_names(ref.module, node)
        if names & {"torch.device"}:
            argument = node.args[0] if node.args else None
            return set(self.of(ref.module, argument)) if argument is not None else {Device.UNKNOWN}
        if isinstance(node.func, ast.Name) and node.func.id == "str" and len(node.args) == 1:
            return set(self.of(ref.module, node.args[0]))
        if any(name.startswith("torch.cuda.") for name in names):
            return {Device.CUDA}
        if any("xla" in name or "hpu" in name for name in names):
            return {Device.OTHER}
        if _GPU_NAME.search(last_name(node.func)):
            return {Device.CUDA}
        return {Device.UNKNOWN}

    def is_dtype(self, module: ModuleIndex, node: ast.expr) -> bool:
        """Return whether the argument of ``.to(...)`` is a dtype (or ``x.dtype``), not a device."""
        name = last_name(node)
        if name in _DTYPES or _DTYPE_NAME.search(name):
            return True
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str) and node.value in _DTYPES
        origins = self._project.fact(Resolver).points_to(module, node)
        named = [ref.node for ref in origins if isinstance(ref.node, ast.Name | ast.Attribute | ast.Constant)]
        return bool(named) and all(
            node.value in _DTYPES if isinstance(node, ast.Constant) else last_name(node) in _DTYPES for node in named
        )

    def only_converts(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether a move only changes the type of the values: ``lengths.to(torch.long)``."""
        if call.keywords or len(call.args) != 1 or last_name(call.func) not in ("to", "type"):
            return False
        return self.is_dtype(module, call.args[0])


def _head(text: str) -> str:
    """Return the kind of a device (``cuda`` of ``cuda:1``)."""
    return text.split(":", 1)[0].strip().lower()


def _named(text: str) -> Device:
    head = _head(text)
    if head in ("cuda", "gpu"):
        return Device.CUDA
    if head in ("cpu", "xpu"):
        return Device(head)
    return Device.OTHER if head in ("mps", "xla", "hpu", "npu", "tpu", "meta", "mlu") else Device.UNKNOWN
