"""Lists that a step makes, fills with what it reads from the GPU, and works with before it ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.training.loop_contexts import LoopContext
from gpulint.workspace.module_index import BindingKind, ModuleIndex, last_name
from gpulint_rules.data.shown_values import followed

_ADDS = frozenset({"append", "extend"})


def is_needed_in_step(module: ModuleIndex, node: ast.expr, context: LoopContext) -> bool:
    """Return whether a value goes into a list that the same step reads: ``starts.append(mask.nonzero()[0].item())``,
    then ``width = max(starts)``. To read it later is no choice."""
    return any(
        _is_made_in_step(module, kept, context) and _is_read(module, kept)
        for use in (node, *followed(module, node))
        for kept in _list_of(module, use)
    )


def _list_of(module: ModuleIndex, use: ast.AST) -> Iterator[ast.Name]:
    """Yield the list that a value, or what is computed of it, is appended to."""
    for up in module.syntax.ancestors(use):
        match up:
            case ast.Call(func=ast.Attribute(value=ast.Name() as kept, attr=attr)) if attr in _ADDS:
                yield kept
            case ast.stmt():
                return


def _is_made_in_step(module: ModuleIndex, kept: ast.Name, context: LoopContext) -> bool:
    """Return whether each step makes a new list, in its loop or in a function that the loop calls."""
    home = module.function(kept)
    bindings = module.scope(kept).lookup(kept.id)
    return bool(bindings) and all(
        one.kind is BindingKind.ASSIGN
        and isinstance(one.value, ast.List | ast.Call)
        and module.function(one.value) is home
        and (bool(context.calls) or context.loop.node in module.syntax.ancestors(one.value))
        for one in bindings
    )


def _is_read(module: ModuleIndex, kept: ast.Name) -> bool:
    """Return whether a function works with a list, other than to return it."""
    home = module.function(kept)
    for use in module.uses.get(kept.id, ()):
        up = module.syntax.parents.get(use)
        if module.function(use) is not home or not isinstance(use.ctx, ast.Load):
            continue
        if isinstance(up, ast.Return | ast.Tuple | ast.Dict) or (isinstance(up, ast.Attribute) and up.attr in _ADDS):
            continue
        if not (isinstance(up, ast.Call) and last_name(up.func) == "len"):
            return True
    return False
