"""Reads of whole tensors: what is copied to the host, and the steps that bring it there."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.placement.host_results import copies_to_host
from gpulint.records import dataclass
from gpulint.workspace.module_index import ModuleIndex

_STEPS = frozenset({"detach", "cpu", "numpy", "tolist", "data"})
"""What a copy of a whole tensor consists of."""
_READS = frozenset({"cpu", "numpy", "tolist"})


@dataclass(frozen=True, slots=True)
class WholeRead:
    """``labels.detach().cpu().numpy()``: the tensor, and the steps that bring it to the host."""

    whole: ast.expr
    tensor: ast.expr
    steps: tuple[str, ...]

    @property
    def text(self) -> str:
        """The steps without those that only detach."""
        return "".join(f".{step}()" for step in self.steps if step in _READS)


def whole_read(value: ast.expr) -> WholeRead | None:
    """The read of a whole tensor that an expression is; None if it is more or less than that."""
    steps, tensor = list[str](), value
    while True:
        match tensor:
            case ast.Call(func=ast.Attribute(attr=name, value=inner), args=[], keywords=[]) if name in _STEPS:
                steps.insert(0, name)
                tensor = inner
            case ast.Call(func=ast.Attribute(value=inner)) if copies_to_host(tensor) and len(tensor.args) == 1:
                steps.insert(0, "cpu")
                tensor = inner
            case ast.Attribute(attr="data", value=inner):
                steps.insert(0, "data")
                tensor = inner
            case _:
                break
    if not _READS.intersection(steps) or any(isinstance(p, ast.Attribute) and p.attr in _READS for p in walk(tensor)):
        return None
    return WholeRead(value, tensor, tuple(steps))


def flat_read(value: ast.expr) -> tuple[WholeRead | None, str]:
    """The read of a whole tensor, and what flattens the copy then, which does the same on the GPU:
    ``labels.cpu().numpy().flatten()``."""
    node, last = value, tuple[str, ...]()
    match node:
        case ast.Call(func=ast.Attribute(attr="tolist", value=inner), args=[], keywords=[]):
            node, last = inner, ("tolist",)
    match node:
        case ast.Call(func=ast.Attribute(attr="flatten" | "ravel", value=inner), args=[], keywords=[]):
            shape = ".flatten()"
        case ast.Call(
            func=ast.Attribute(attr="reshape", value=inner),
            args=[ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))],
            keywords=[],
        ):
            shape = ".reshape(-1)"
        case _:
            return whole_read(value), ""
    read = whole_read(inner)
    if read is None or "numpy" not in read.steps or "tolist" in read.steps:
        return None, ""
    return WholeRead(value, read.tensor, (*read.steps, *last)), shape


def operand(module: ModuleIndex, tensor: ast.expr) -> str:
    """The text of a tensor of which a method may be called: operators need parentheses."""
    text = module.syntax.text(tensor)
    return text if isinstance(tensor, ast.Name | ast.Attribute | ast.Subscript | ast.Call) else f"({text})"
