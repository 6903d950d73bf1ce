"""Values that each step computes anew and that only code below the loop reads: that of the last batch is enough."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.fix import Edit, Fix, Safety
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.source import Span
from gpulint.workspace.module_index import LoopNode, ModuleIndex, last_name

_PURE = ("numpy.", "scipy.", "sklearn.metrics.", "skimage.metrics.", "math.")
"""Modules whose functions do nothing but compute."""
_COPIES = frozenset({"cpu", "detach", "numpy", "item", "tolist", "float", "flatten", "ravel", "squeeze", "argmax"})
"""Methods of tensors and arrays that do nothing but compute."""
_EXITS = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Delete)


def last_value(project: Project, module: ModuleIndex, statement: ast.Assign, loop: LoopNode) -> Fix | None:
    """Move ``score = r2_score(y.cpu().numpy(), out.cpu().numpy())`` from the end of a loop's body below the loop; None
    if a step reads it, or if it may not be computed there."""
    if not isinstance(loop, ast.For) or loop.orelse or loop.body[-1] is not statement or len(loop.body) < 2:
        return None
    if any(isinstance(part, _EXITS) for part in walk(loop)) or not _is_read_below(module, statement, loop):
        return None
    if not all(_only_computes(project, module, part) for part in walk(statement) if isinstance(part, ast.Call)):
        return None
    source, span = module.syntax.source, module.syntax.span(statement)
    above, below = source.line(span.line - 1).strip(), source.line(span.end_line + 1)
    alone = not source.line(span.line)[: span.column - 1].strip() and not above.startswith("#")
    own = source.line(loop.lineno)[: loop.col_offset] if span.cell is None else "-"
    deeper = below.lstrip().startswith("#") and len(below) - len(below.lstrip()) > loop.col_offset
    if span.cell is not None or span.line != span.end_line or not alone or own.strip() or deeper:
        return None
    edit = Edit(module.path, Span(span.line, 1, span.line, span.column), own)
    return Fix("compute it of the last batch only, of which alone it is read", Safety.UNSAFE, (edit,))


def _is_read_below(module: ModuleIndex, statement: ast.Assign, loop: ast.For) -> bool:
    """Return whether a variable of the function is only set by a statement, and only read below the loop."""
    function, target = module.function(loop), statement.targets[0]
    if function is None or len(statement.targets) != 1 or not isinstance(target, ast.Name):
        return False
    bindings = module.scope(loop).bindings.get(target.id, [])
    uses = [node for node in module.uses.get(target.id, ()) if module.scope(node).lookup(target.id) is bindings]
    last = loop.end_lineno or loop.lineno
    return (
        len(bindings) == 1
        and bool(uses)
        and all(use.lineno > last and module.function(use) is function for use in uses)
    )


def _only_computes(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr in _COPIES:
        return True
    if isinstance(call.func, ast.Name) and last_name(call.func) in ("float", "int", "len"):
        return True
    resolver = project.fact(Resolver)
    names = resolver.call_names(module, call) or {
        name
        for ref in resolver.points_to(module, call.func)
        if isinstance(ref.node, ast.expr)
        for name in resolver.names(ref.module, ref.node)
    }
    return bool(names) and all(name.startswith(_PURE) for name in names)
