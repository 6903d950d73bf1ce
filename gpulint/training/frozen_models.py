"""Models whose weights are frozen, as a whole or up to the head: their forward pass keeps hardly any activations."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, dotted

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


def is_frozen(project: Project, module: ModuleIndex, model: ast.expr) -> bool:
    """Return whether what makes a model freezes all of its weights: the function that returns it, ``__init__`` of its
    class, or a function that gets it."""
    resolver = project.fact(Resolver)
    for made in resolver.points_to(module, model):
        up = made.module.syntax.parents.get(made.node)
        while isinstance(up, ast.Call | ast.Attribute):  # freeze(build()), build().to(device)
            if isinstance(up, ast.Call) and any(_freezes_given(one) for one in resolver.callees(made.module, up)):
                return True
            up = made.module.syntax.parents.get(up)
        function = made.module.function(made.node)
        if function is not None and made.module is not module and _freezes(made.module, function, _name(made)):
            return True
        makers = resolver.callees(made.module, made.node) if isinstance(made.node, ast.Call) else ()
        built = [one for one in makers if getattr(one.node, "name", "") == "__init__"]
        if any(_freezes(one.module, one.node, "self") for one in built):
            return True
    return False


def _name(made: NodeRef) -> str:
    """The variable that gets what was made."""
    up = made.module.syntax.parents.get(made.node)
    while isinstance(up, ast.Call | ast.Attribute):
        up = made.module.syntax.parents.get(up)
    return dotted(up.targets[0]) if isinstance(up, ast.Assign) else ""


def _freezes_given(function: NodeRef) -> bool:
    node = function.node
    return isinstance(node, FUNCTIONS) and any(
        _freezes(function.module, node, argument.arg) for argument in node.args.args[:1]
    )


def _freezes(module: ModuleIndex, function: ast.AST, model: str) -> bool:
    """``for p in model.parameters(): p.requires_grad = False``, ``model.requires_grad_(False)``"""
    for part in walk(function) if model else ():
        if isinstance(part, ast.For) and _set_by(part, False) == model:
            return True
        match part:
            case ast.Call(func=ast.Attribute(value=owner, attr="requires_grad_"), args=[ast.Constant(value=False)]):
                if dotted(owner) == model:
                    return True
    return False


def _set_by(loop: ast.For, wanted: bool) -> str:
    """The model all of whose weights a loop sets ``requires_grad`` of; "" for any other loop."""
    match loop.iter, loop.body:
        case (
            ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as model, attr=method)),
            [ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=ast.Constant(value=value))]
            | [ast.Expr(ast.Call(func=ast.Attribute(attr="requires_grad_"), args=[ast.Constant(value=value)]))],
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
