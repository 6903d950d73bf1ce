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
_CONSTANT = frozenset({"torch.zeros", "torch.ones", "torch.empty", "torch.full"})
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
    runs on the same, or with one number, or nothing but the shape of what it returns is used: no data is evaluated."""
    given = [*forward.args, *(keyword.value for keyword in forward.keywords)]
    inputs = [one for one in given if not isinstance(one, ast.Constant)]
    if loop is None or not inputs:
        return False
    inside = set[ast.AST]() if _is_dropped(module, forward) else set(walk(loop))
    values = [one.value if isinstance(one, ast.Starred) else one for one in inputs]
    return all(_is_made_up(project, module, one, inside, MAX_STEPS) for one in values)


def _is_dropped(module: ModuleIndex, forward: ast.Call) -> bool:
    """Return whether what a call returns goes nowhere, or is only asked for its shape."""
    up = module.syntax.parents.get(forward)
    match up:
        case ast.Expr():
            return True
        case ast.Assign(targets=[ast.Name(id=name) as target]):
            home = module.scope(target).lookup(name)
            uses = [use for use in module.uses.get(name, ()) if module.scope(use).lookup(name) is home]
            return all(use is target or _is_shape(module.syntax.parents.get(use)) for use in uses)
    return _is_shape(up)


def _is_shape(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("shape", "size", "dim", "ndim")


def _is_made_up(project: Project, module: ModuleIndex, node: ast.expr, inside: set[ast.AST], steps: int) -> bool:
    if steps == 0:
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
            if names & _CONSTANT or (node not in inside and (names & _ARRAYS or _fills(names, args))):
                return True
            wrapped = args[0] if names & _WRAPS and args else None
            return wrapped is not None and _is_made_up(project, module, wrapped, inside, steps - 1)
    return False


def _fills(names: frozenset[str], args: list[ast.expr]) -> bool:
    """``torch.randn(8, 3)``; ``torch.Tensor(values)`` may copy what it is given rather than take a size."""
    return bool(names & _FILLS) and (len(args) > 1 or not any(name.endswith("Tensor") for name in names))
