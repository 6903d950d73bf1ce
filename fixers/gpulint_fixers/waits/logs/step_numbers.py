"""Variables that count the steps of a loop."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import LOOPS, LoopNode, ModuleIndex, last_name

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


def starts_anew(module: ModuleIndex, loop: LoopNode, name: str) -> bool:
    """Return whether a variable that a loop raises is 0 before it in each epoch, or in each call of the function."""
    if not isinstance(loop, ast.For) or name == running(module, loop):
        return False
    function, outer = module.function(loop), [up for up in module.syntax.ancestors(loop) if isinstance(up, LOOPS)]
    for use in module.named.get(name, []):
        match module.syntax.parents.get(use):
            case ast.Assign(targets=[ast.Name()], value=ast.Constant(value=0)) as start if (
                module.function(use) is function and start.lineno < loop.lineno
            ):
                again = any(up in outer for up in module.syntax.ancestors(start))
                return again if outer else function is not None
    return False


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


def is_enumerated(module: ModuleIndex, source: ast.expr) -> bool:
    """``enumerate(loader)``, or a bar that was made of it, perhaps only where one is shown (``tqdm(enumerate(loader))
    if verbose else enumerate(loader)``)."""
    if isinstance(source, ast.Name):
        return any(
            isinstance(part, ast.Call) and enumerates(part)
            for binding in module.scope(source).lookup(source.id)
            if isinstance(binding.value, ast.Call | ast.IfExp)
            for part in walk(binding.value)
        )
    if isinstance(source, ast.IfExp):
        return is_enumerated(module, source.body) and is_enumerated(module, source.orelse)
    return isinstance(source, ast.Call) and enumerates(source)


def ranges(source: ast.Call) -> bool:
    """``range(n)``, perhaps inside of ``tqdm(...)``."""
    while last_name(source.func) in ("tqdm", "track") and source.args and isinstance(source.args[0], ast.Call):
        source = source.args[0]
    return isinstance(source.func, ast.Name | ast.Attribute) and last_name(source.func) in ("range", "trange")


def by_ones(source: ast.expr) -> bool:
    """Return whether a range has no step: with one it counts samples."""
    calls = [
        part for part in walk(source) if isinstance(part, ast.Call) and last_name(part.func) in ("range", "trange")
    ]
    return all(len(call.args) < 3 for call in calls)


def enumerates(call: ast.Call) -> bool:
    """``enumerate(loader)``, perhaps inside of ``tqdm(...)``."""
    while last_name(call.func) in ("tqdm", "track", "wrap_iter") and call.args and isinstance(call.args[0], ast.Call):
        call = call.args[0]
    return isinstance(call.func, ast.Name) and call.func.id == "enumerate"
