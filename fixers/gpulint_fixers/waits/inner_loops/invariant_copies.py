"""Copies to the host that each round of an inner loop makes of the same tensor: one above the loop is enough."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Edit, Fix, Safety
from gpulint.source import Span
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.edits.statements import insert_above, remove_statement, without_gaps

_PARTS = (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript, ast.Slice, ast.UnaryOp, ast.USub, ast.Load)
_COPIES = frozenset({"cpu", "numpy", "tolist"})
_COMPUTES = frozenset({"detach", "clone", "float", "double", "half", "long", "int", "bool", "squeeze", "flatten"})
_RUNS_ON = (ast.With, ast.Try)
"""Blocks between a loop and a statement that each round gets to."""


def copied_above(found: HostWait) -> Fix | None:
    """``for band in range(n): signal = series.cpu().numpy()``, where the loop changes neither."""
    module, statement = found.module, found.statement
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_copy(value):
            loop = _outermost(found, statement, name, value)
        case _:
            return None
    if loop is None:
        return None
    removed, comment = remove_statement(module.syntax, statement), _comment_above(module, statement)
    if removed is None or removed.text or removed.span.column > 1:
        return None
    lines = [*comment, *module.syntax.text(statement).splitlines()]
    indent = " " * loop.col_offset
    above = insert_above(module.syntax, loop, f"\n{indent}".join(line.strip() for line in lines))
    if above is None or "\n" in module.syntax.text(statement):
        return None
    span = removed.span
    moved = Edit(removed.path, Span(span.line - len(comment), 1, span.end_line, 1, span.cell), "")
    text = f"copy once above the loop, unless it changes `{name}`, of which each round now has the same"
    edits = (moved,) if span.cell is not None else without_gaps(module.syntax.source, [moved])
    return Fix(text, Safety.UNSAFE, (above, *edits))


def _is_copy(value: ast.expr) -> bool:
    """Return whether an expression does nothing but copy a tensor to the host."""
    called = [part.func for part in walk(value) if isinstance(part, ast.Call)]
    methods = {func.attr for func in called if isinstance(func, ast.Attribute)}
    return (
        all(isinstance(part, _PARTS) for part in walk(value))
        and all(isinstance(func, ast.Attribute) for func in called)
        and bool(methods & _COPIES)
        and methods <= _COPIES | _COMPUTES
    )


def _outermost(found: HostWait, statement: ast.Assign, name: str, value: ast.expr) -> ast.For | None:
    """The outermost loop inside of the step whose rounds all make the same copy."""
    module, best = found.module, None
    reads = {part.id for part in walk(value) if isinstance(part, ast.Name)}
    for up in module.syntax.ancestors(statement):
        if up is found.context.loop.node or not isinstance(up, (ast.For, *_RUNS_ON)):
            break
        if isinstance(up, ast.Try) and statement.lineno >= (up.finalbody or up.orelse or up.handlers)[0].lineno:
            break
        if isinstance(up, ast.For):
            if not _repeats(up, statement, name, reads):
                break
            best = up
    return best


def _repeats(loop: ast.For, statement: ast.Assign, name: str, reads: set[str]) -> bool:
    """Return whether a loop leaves the tensor and its copy alone, and reads the copy only below the statement."""
    for part in walk(loop):
        match part:
            case ast.Name(id=own, ctx=ast.Store() | ast.Del()) if own in reads | {name}:
                if part is not statement.targets[0]:
                    return False
            case ast.Name(id=own) if own == name and part.lineno < statement.lineno:
                return False
            case ast.AugAssign(target=target):
                if _root(target) in reads | {name}:
                    return False
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                if _root(part) in reads | {name}:
                    return False
            case ast.Call(func=ast.Attribute(value=owner, attr=attr)):
                if _root(owner) in reads | {name} and (attr.endswith("_") or attr in ("sort", "append", "fill")):
                    return False
    return not any(isinstance(up, ast.Break | ast.Continue) and up.lineno < statement.lineno for up in walk(loop))


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _comment_above(module: ModuleIndex, statement: ast.stmt) -> list[str]:
    """The lines of a comment right above a statement."""
    span, found = module.syntax.span(statement), list[str]()
    source = module.syntax.source
    while span.cell is None and (line := source.line(span.line - len(found) - 1)).lstrip().startswith("#"):
        found.insert(0, line)
    return found
