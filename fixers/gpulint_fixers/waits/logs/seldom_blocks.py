"""Blocks of a loop that run every N steps and use a table of sums as a whole."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_fixers.edits.places import formats
from gpulint_fixers.waits.deferred_reads import Variable
from gpulint_fixers.waits.logs.log_intervals import logged_seldom

_KEEPS = frozenset({"append", "extend", "insert", "setdefault"})


def read_seldom(
    project: Project, variable: Variable, nodes: Iterable[ast.Name], own: Collection[ast.AST]
) -> dict[ast.If, list[ast.Name]]:
    """The blocks in which uses of a table are reached every N steps only, with these uses: the table may be converted
    above them.

    Blocks that only format entries are left out, as they need no conversion, and so are those that add to the table
    (``own``) or keep it.
    """
    found: dict[ast.If, list[ast.Name]] = {}
    for node in nodes:
        block = _block(project, variable, node) if variable.is_inside(node) else None
        if block is not None:
            found.setdefault(block, []).append(node)
    module = variable.module
    return {
        block: uses
        for block, uses in found.items()
        if not all(formats(module, node) for node in uses)
        and not any(part in own for part in walk(block))
        and not any(_is_kept(module, node) for node in uses)
    }


def _block(project: Project, variable: Variable, node: ast.Name) -> ast.If | None:
    """The outermost block around a use that not every step runs."""
    module, found = variable.module, None
    inner: ast.AST = node
    for up in module.syntax.ancestors(node):
        if up is variable.loop:
            break
        if isinstance(up, ast.If) and inner in up.body and logged_seldom(project, module, up.body[0]):
            found = up
        inner = up
    return found


def _is_kept(module: ModuleIndex, node: ast.Name) -> bool:
    """``history.append(sums)``, ``last = sums``: the next steps change what is kept."""
    match module.syntax.parents.get(node):
        case ast.Call(func=func) as call:
            return node in call.args and last_name(func) in _KEEPS
        case ast.Attribute() | ast.Subscript() | ast.For() | ast.comprehension() | ast.Compare() | ast.keyword():
            return False
        case ast.FormattedValue():
            return False
    return True
