"""Tensors that methods fill in place right where they are made: ``torch.empty(n).uniform_(-1, 1)``."""

from __future__ import annotations

import ast

from gpulint.placement.container_helpers import made_by
from gpulint.records import dataclass
from gpulint.workspace.module_index import last_name

_CONSTANT = frozenset({"fill_", "zero_"})
_RANDOM = frozenset(
    "uniform_ normal_ random_ bernoulli_ exponential_ log_normal_ cauchy_ geometric_ trunc_normal_".split()
)
OF_TYPE = frozenset({"torch.Tensor", "torch.FloatTensor", "torch.LongTensor"})
"""Constructors that take sizes, or values, which a method then overwrites."""


@dataclass(frozen=True, slots=True)
class Made:
    """The expression that makes a tensor, and how methods fill it, if they do."""

    node: ast.expr
    filled: bool = False
    random: bool = False


def made_and_filled(tensor: ast.expr) -> Made:
    """Return what makes a tensor, before changes of its shape, methods that fill it in place, and ``Variable(...)``."""
    filled = random = False
    while True:
        match tensor := made_by(tensor):
            case ast.Call(func=ast.Attribute(value=inner, attr=name), keywords=keywords) if (
                name in _CONSTANT | _RANDOM and not any(word.arg in ("generator", None) for word in keywords)
            ):
                filled, random, tensor = True, random or name in _RANDOM, inner
            case ast.Call(func=func, args=[inner], keywords=[]) if last_name(func) == "Variable":
                tensor = inner
            case _:
                return Made(tensor, filled, random)
