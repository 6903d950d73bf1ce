"""Models of which only the head is trained: a training step keeps hardly more activations than an evaluation."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

_HEAD = regex.compile(r"^(head|heads|fc|classifier|linear|last_linear|probe|cls_head|linear_head|classification_head)$")
_WEIGHTS = frozenset({"parameters", "named_parameters"})


def trains_only_head(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module freezes the weights of a model, and trains or replaces its last layer alone."""
    loops = [loop for loop in module.loops if isinstance(loop, ast.For)]
    frozen = {
        name
        for loop in loops
        if (name := _set_by(loop, False)) and not project.fact(Guards).is_conditional(module, loop)
    }
    thawed = {name for loop in loops if (name := _set_by(loop, True))}
    return bool(frozen) and not frozen & thawed and not frozen.isdisjoint(_with_head(module))


def _set_by(loop: ast.For, wanted: bool) -> str:
    """The model all of whose weights a loop sets ``requires_grad`` of; "" for any other loop."""
    match loop.iter, loop.body:
        case (
            ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as model, attr=method)),
            [ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=ast.Constant(value=value))],
        ) if method in _WEIGHTS and value is wanted:
            return ast.unparse(model)
    return ""


def _with_head(module: ModuleIndex) -> Iterator[str]:
    """Models whose head the module replaces, or takes the weights of by itself."""
    for node in module.syntax.of(ast.Attribute):
        if _HEAD.match(node.attr):
            up = module.syntax.parents.get(node)
            if isinstance(node.ctx, ast.Store) or (isinstance(up, ast.Attribute) and up.attr in _WEIGHTS):
                yield ast.unparse(node.value)
