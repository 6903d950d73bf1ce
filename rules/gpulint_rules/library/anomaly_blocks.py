"""What part of a run anomaly detection checks, and what it does there."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.training.bounded_loops import stops_within
from gpulint.training.loop_contexts import LoopContexts
from gpulint.values.arguments import Arguments
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

_FEW = 20
"""Steps of a run that only tries whether a training works."""
_WITHOUT_GRADIENTS = frozenset({"predict", "test", "validate"})
"""What Lightning's trainers do without a backward pass."""
_CHECKS = "checks every gradient"
_KEEPS = "keeps the stack of every operation"


def is_around_few_passes(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the call is the context of a ``with`` around a backward pass that no loop, or one of a few rounds,
    repeats: a check."""
    block = _block(module, call)
    if block is None:
        return False
    inner = set(walk(block))
    return (
        any(backward in inner for backward in module.calls_by_name.get("backward", ()))
        and all(stops_within(project, NodeRef(module, loop), _FEW) for loop in module.loops if loop in inner)
        and not project.fact(LoopContexts).enclosing_loops(module, call)
    )


def is_around_backward_alone(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the call is the context of a ``with`` that starts with the backward pass: the operations before it
    are not recorded."""
    block = _block(module, call)
    first = block.body[0] if block is not None else None
    while isinstance(first, ast.If) and not first.orelse:
        first = first.body[0]
    return (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Call)
        and last_name(first.value.func) in ("backward", "manual_backward")
    )


def looks_for_nan(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the mode looks at the values of gradients (not ``check_nan=False``)."""
    position = 0 if last_name(call.func) == "detect_anomaly" else 1
    return not project.fact(Arguments).value(module, call, "check_nan", position).every(lambda value: value is False)


def cost_of(project: Project, module: ModuleIndex, call: ast.Call) -> str:
    """Say what anomaly detection does where it is on."""
    does = [_CHECKS] if looks_for_nan(project, module, call) else []
    if not is_around_backward_alone(module, call):
        does.append(_KEEPS)
    return f", which {' and '.join(does)}" if does else ""


def fits_nothing(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the module uses a trainer that it makes only to run a model."""
    parents = module.syntax.parents
    held = {
        target.id
        for ref in (parents.get(call),)
        if isinstance(ref, ast.Assign)
        for target in ref.targets
        if isinstance(target, ast.Name)
    }
    uses: list[ast.AST] = [call] if not held else []
    uses += [
        node
        for node in walk(module.syntax.tree)
        if isinstance(node, ast.Name)
        and node.id in held
        and isinstance(node.ctx, ast.Load)
        and any(ref.node is call for ref in project.fact(Resolver).points_to(module, node))
    ]
    done = [_method(module, use) for use in uses]
    return any(done) and all(name is not None and (not name or name in _WITHOUT_GRADIENTS) for name in done)


def _method(module: ModuleIndex, value: ast.AST) -> str | None:
    """The method that is called of a value, nothing for a value that is read, or ``None`` where it goes elsewhere."""
    parent = module.syntax.parents.get(value)
    if not isinstance(parent, ast.Attribute):
        return None
    above = module.syntax.parents.get(parent)
    return parent.attr if isinstance(above, ast.Call) and above.func is parent else ""


def _block(module: ModuleIndex, call: ast.Call) -> ast.With | None:
    """The ``with`` that a call is the context of."""
    block = next((up for up in module.syntax.ancestors(call) if isinstance(up, ast.With)), None)
    return block if block is not None and any(item.context_expr is call for item in block.items) else None
