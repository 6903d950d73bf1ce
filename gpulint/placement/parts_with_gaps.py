"""Parts of batches with gaps between their numbers, which the driver cannot copy as they are: a new tensor is made of
them on the host first, in memory that no loader has pinned."""

from __future__ import annotations

import ast

from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import BindingKind, ModuleIndex

_SAME_MEMORY = frozenset("squeeze unsqueeze detach requires_grad_ view".split())
"""Methods that leave the order of the numbers in memory as it is."""
_STEPS = 2
"""Most assignments that a value is followed through."""


def has_gaps(module: ModuleIndex, value: ast.expr, steps: int = _STEPS) -> bool:
    """Return whether a value is certainly a part of a tensor by another dimension than its first: ``images[..., :8]``,
    also by way of variables (``low = volume[..., ::2]`` and ``low.unsqueeze(0)``)."""
    match value:
        case ast.Subscript(value=whole, slice=ast.Tuple(elts=parts)):
            return any(map(_cuts, _behind_first(parts))) or has_gaps(module, whole, steps)
        case ast.Subscript(value=whole, slice=ast.Slice()):
            return has_gaps(module, whole, steps)
        case ast.Call(func=ast.Attribute(value=whole, attr=name)) if name in _SAME_MEMORY:
            return has_gaps(module, whole, steps)
        case ast.Name(id=name) if steps:
            bound = reaching(module, module.scope(value).lookup(name), value)
            return bool(bound) and all(
                one.kind is BindingKind.ASSIGN
                and one.value is not None
                and not one.path
                and has_gaps(module, one.value, steps - 1)
                for one in bound
            )
    return False


def _behind_first(parts: list[ast.expr]) -> list[ast.expr]:
    """Return the indices of the dimensions behind the first one that is left: ``x[0, :8]`` has no gaps."""
    kept = (index for index, part in enumerate(parts) if isinstance(part, ast.Slice) or _is_ellipsis(part))
    return parts[next(kept, len(parts)) + 1 :]


def _is_ellipsis(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is ...


def _cuts(part: ast.expr) -> bool:
    """Return whether a slice leaves out a part of its dimension, as far as is known: ``:`` and ``0:`` do not."""
    if not isinstance(part, ast.Slice):
        return False
    starts = part.lower is None or (isinstance(part.lower, ast.Constant) and part.lower.value == 0)
    return not starts or part.upper is not None or part.step is not None
