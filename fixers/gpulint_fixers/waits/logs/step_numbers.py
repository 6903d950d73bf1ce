"""Variables that count the steps of a loop."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.query import query
from gpulint.workspace.module_index import LOOPS, LoopNode, ModuleIndex

COUNTER = regex.compile(
    r"(^|_)(i|idx|index|it|iter|iters|iteration|iterations|step|steps|batch_idx|n_iter|niter|cnt|count|counter)$"
)
"""Names of what counts steps."""


@query
def running(module: ModuleIndex, loop: LoopNode) -> str | None:
    """The step number that goes on from one epoch to the next: raised in each round, and set outside of the loop over
    epochs. A number that starts anew may never be as large as the interval, where an epoch has few batches."""
    outer = [up for up in module.syntax.ancestors(loop) if isinstance(up, LOOPS)]
    for name in filter(None, map(increment, loop.body)):
        if "." in name:
            return name
        sets = [one for one in module.syntax.of(ast.Name) if one.id == name and isinstance(one.ctx, ast.Store)]
        others = [one for one in sets if not isinstance(module.syntax.parents.get(one), ast.AugAssign)]
        function = module.function(loop)
        own = [one for one in others if module.function(one) is function]
        if outer and own and not any(outer[-1] in module.syntax.ancestors(one) for one in own):
            return name
    return None


def increment(statement: ast.stmt) -> str | None:
    """``step += 1``, ``self.step += 1``, of a variable whose name says that it counts steps."""
    match statement:
        case ast.AugAssign(
            target=ast.Attribute(value=ast.Name(), attr=name), op=ast.Add(), value=ast.Constant(value=1)
        ) if COUNTER.search(name):
            return ast.unparse(statement.target)
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=ast.Constant(value=1)):
            return name if COUNTER.search(name) else None
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.BinOp(left=ast.Name(id=own), op=ast.Add(), right=ast.Constant(value=1)),
        ) if own == name:
            return name if COUNTER.search(name) else None
    return None
