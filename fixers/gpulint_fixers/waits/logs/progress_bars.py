"""Progress bars: what shows values in one, and whether each epoch makes a new one."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.workspace.module_index import LOOPS, LoopNode, ModuleIndex, last_name

_MAKES = frozenset({"tqdm", "trange", "auto_tqdm", "notebook_tqdm"})


def shows_in_bar(statement: ast.stmt) -> bool:
    """Return whether a statement shows values in a progress bar."""
    return any(_shown_in(statement))


def _shown_in(statement: ast.stmt) -> list[ast.expr]:
    """The bars in which a statement shows values."""
    calls = (part.func for part in walk(statement) if isinstance(part, ast.Call))
    return [
        func.value if isinstance(func, ast.Attribute) else func
        for func in calls
        if last_name(func).startswith(("set_postfix", "set_description"))
    ]


def shows_in_new_bar(module: ModuleIndex, loop: LoopNode, statement: ast.stmt) -> bool:
    """Return whether a statement shows values in a bar that goes through the rounds of a loop, and that each epoch, or
    each call of the function, makes anew: what it does not get in an epoch, it never shows."""
    bars = _shown_in(statement)
    return bool(bars) and all(isinstance(bar, ast.Name) and _is_new(module, loop, bar) for bar in bars)


def _is_new(module: ModuleIndex, loop: LoopNode, bar: ast.Name) -> bool:
    outer = [up for up in module.syntax.ancestors(loop) if isinstance(up, LOOPS)]
    function = module.function(loop)
    bindings = module.scope(bar).lookup(bar.id)
    made = [binding.value or binding.node for binding in bindings]
    return (
        bool(made)
        and isinstance(loop, ast.For)
        and any(isinstance(part, ast.Name) and part.id == bar.id for part in walk(loop.iter))
        and all(isinstance(one, ast.Call) and last_name(one.func) in _MAKES for one in made)
        and all(module.function(one) is function for one in made)
        and (
            all(any(up in outer for up in module.syntax.ancestors(one)) for one in made)
            if outer
            else function is not None
        )
    )
