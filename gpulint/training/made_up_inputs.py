"""Forward passes of made-up inputs, which try a model: for the shapes of its features, its speed or its graph."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import BindingKind, ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_STEPS = 8
"""Most assignments and methods between an input and what made it."""
_FILLS = frozenset(
    f"torch.{name}"
    for name in "randn rand zeros ones empty full randint Tensor FloatTensor cuda.FloatTensor LongTensor".split()
)
_WRAPS = frozenset({"torch.autograd.Variable", "torch.from_numpy", "torch.as_tensor", "torch.tensor", "torch.Tensor"})
_ARRAYS = frozenset(f"numpy.random.{name}" for name in "rand randn random uniform normal randint".split()) | {
    "numpy.zeros",
    "numpy.ones",
}
_KEEPS = frozenset(
    "to cuda cpu float double half long int astype view reshape unsqueeze squeeze permute transpose contiguous expand "
    "repeat clone detach requires_grad_".split()
)
"""Methods whose result is made of the tensor alone."""


def is_given_made_up(project: Project, module: ModuleIndex, forward: ast.Call, loop: ast.AST | None) -> bool:
    """Return whether all that a call in a loop is given was filled with numbers before the loop, so that each round
    runs on the same: no data is evaluated."""
    given = [*forward.args, *(keyword.value for keyword in forward.keywords)]
    inputs = [one for one in given if not isinstance(one, ast.Constant)]
    if loop is None or not inputs:
        return False
    inside = set(walk(loop))
    values = [one.value if isinstance(one, ast.Starred) else one for one in inputs]
    return all(isinstance(one, ast.Name) and _is_made_up(project, module, one, inside, MAX_STEPS) for one in values)


def _is_made_up(project: Project, module: ModuleIndex, node: ast.expr, inside: set[ast.AST], steps: int) -> bool:
    if steps == 0 or (node in inside and not isinstance(node, ast.Name)):
        return False
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts) if parts:
            return all(_is_made_up(project, module, part, inside, steps - 1) for part in parts)
        case ast.Name(id=name):
            bindings = reaching(module, module.scope(node).lookup(name), node)
            return bool(bindings) and all(
                one.kind is BindingKind.ASSIGN
                and one.value is not None
                and not one.path
                and _is_made_up(project, module, one.value, inside, steps - 1)
                for one in bindings
            )
        case ast.Call(func=ast.Attribute(value=base, attr=method)) if method in _KEEPS:
            return _is_made_up(project, module, base, inside, steps - 1)
        case ast.Call(args=args):
            names = project.fact(Resolver).call_names(module, node)
            if names & _ARRAYS or (names & _FILLS and not _may_copy(names, args)):
                return True
            wrapped = args[0] if names & _WRAPS and args else None
            return wrapped is not None and _is_made_up(project, module, wrapped, inside, steps - 1)
    return False


def _may_copy(names: frozenset[str] | set[str], args: list[ast.expr]) -> bool:
    """``torch.Tensor(values)``, which may copy what it is given rather than take a size."""
    return any(name.endswith("Tensor") for name in names) and len(args) < 2
