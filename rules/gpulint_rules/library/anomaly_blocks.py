"""What part of a run anomaly detection checks, and what it does there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.training.bounded_loops import stops_within
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.values.arguments import Arguments
from gpulint.workspace.module_index import FUNCTIONS, LoopNode, ModuleIndex, NodeRef, last_name

_FEW = 20
"""Steps of a run that only tries whether a training works."""
MAX_FUNCTIONS = 40
"""Most functions that are searched for epochs."""
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


def trains_between(project: Project, module: ModuleIndex, first: ast.Call, last: ast.Call) -> bool:
    """Return whether the function of two calls, neither of which is in a loop, trains for epochs between them, by
    itself or in what it calls there."""
    function, contexts = module.function(first), project.fact(LoopContexts)
    if module.function(last) is not function or [*contexts.around(module, first), *contexts.around(module, last)]:
        return False
    within = range(first.lineno + 1, last.lineno)
    if any(module.function(loop) is function and loop.lineno in within for loop in _epochs(project, module)):
        return True
    resolver = project.fact(Resolver)
    calls = [call for call in module.calls_of(function) if call.lineno in within]
    todo = [callee for call in calls for callee in resolver.callees(module, call)]
    done: set[ast.AST] = set()
    while todo and len(done) < MAX_FUNCTIONS:
        found = todo.pop()
        if not isinstance(found.node, FUNCTIONS) or found.node in done:
            continue
        done.add(found.node)
        if any(found.module.function(loop) is found.node for loop in _epochs(project, found.module)):
            return True
        todo += [one for call in found.module.calls_of(found.node) for one in resolver.callees(found.module, call)]
    return False


def _epochs(project: Project, module: ModuleIndex) -> Iterator[LoopNode]:
    role = project.fact(LoopContexts).role
    return (loop for loop in module.loops if role(module, loop) is Role.EPOCH)


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
