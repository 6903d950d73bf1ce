"""How often a program goes through a data set that reads its source again in each pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.libraries.samples import DataCache
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.transfers.data_caches import DataCaches
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import COMPREHENSIONS, LOOPS, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_REPEATS = "repeat"
_EPOCHS = "epochs"
_BEFORE_EPOCHS = 3
"""Parameters of ``fit`` that come before the epochs."""
_MOST = 100
"""Places that a data set is followed to, and callers around one."""


def is_read_once(project: Project, module: ModuleIndex, call: ast.Call, row: DataCache) -> bool:
    """Return whether one pass is all that the program makes over what a call yields, as far as all its uses are known.

    It is followed through its methods, through functions that join several, and through variables.
    """
    if len(project.fact(DataCaches).with_users(module)) > 1:
        return False  # other modules may read it under its name
    values: list[ast.expr] = [call]
    known, reads = set(values), list[ast.AST]()
    while values:
        followed = _followed(module, values.pop(), row)
        if followed is None or len(known) > _MOST:
            return False
        passed, read = followed
        values += [value for value in passed if value not in known]
        known.update(passed)
        reads += [] if read is None else [read]
    return len(reads) == 1 and _is_one_pass(project, module, reads[0], row) and _runs_once(project, module, reads[0])


def _followed(module: ModuleIndex, value: ast.expr, row: DataCache) -> tuple[list[ast.expr], ast.AST | None] | None:
    """Return what a value goes on in, and what reads it; None where that is not known."""
    parent = module.syntax.parents.get(value)
    if isinstance(parent, ast.keyword):
        parent = module.syntax.parents.get(parent)
    match parent:
        case ast.Attribute():
            used = module.syntax.parents.get(parent)
            if not isinstance(used, ast.Call) or used.func is not parent or parent.attr == _REPEATS:
                return None
            return [used], None
        case ast.Tuple() | ast.List():
            joined = module.syntax.parents.get(parent)
            return ([joined], None) if isinstance(joined, ast.Call) and last_name(joined.func) in row.joins else None
        case ast.Call() if last_name(parent.func) in row.joins:
            return [parent], None
        case ast.Call(func=ast.Attribute(attr=name)) if name in row.passes:
            return [], parent
        case ast.For() if parent.iter is value:
            return [], parent
        case ast.Assign(targets=[ast.Name() as target]):
            return _reached(module, parent, target), None
        case ast.Expr():
            return [], None
    return None


def _reached(module: ModuleIndex, assigned: ast.Assign, target: ast.Name) -> list[ast.expr]:
    """Return the uses of a variable that may have the value of one assignment."""
    bindings = module.scope(target).lookup(target.id)
    return [
        use
        for use in module.uses.get(target.id, ())
        if module.scope(use).lookup(target.id) is bindings
        and any(one.node is assigned or one.value is assigned.value for one in reaching(module, bindings, use))
    ]


def _is_one_pass(project: Project, module: ModuleIndex, read: ast.AST, row: DataCache) -> bool:
    """Return whether a loop or a call goes through its data once: ``model.fit`` does so for each of its epochs."""
    if not isinstance(read, ast.Call):
        return True
    epochs = keyword_value(read, _EPOCHS)
    if any(keyword.arg is None for keyword in read.keywords) or len(read.args) > _BEFORE_EPOCHS:
        return False
    return epochs is None or project.fact(Constants).of(module, epochs).every(lambda value: value == 1)


def _runs_once(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place is in no loop, and its function is called at one place only that runs once as well."""
    seen = set[ast.AST]()
    for _ in range(_MOST):
        function = module.function(node)
        if any(isinstance(up, (*LOOPS, *COMPREHENSIONS, ast.Lambda)) for up in _around(module, node, function)):
            return False
        if function is None:
            return True
        if function in seen:
            return False
        seen.add(function)
        sites = project.fact(Resolver).call_sites(module, function)
        if len(sites) != 1:
            return False
        module, node = sites[0].module, sites[0].node
    return False


def _around(module: ModuleIndex, node: ast.AST, function: ast.AST | None) -> Iterator[ast.AST]:
    for up in module.syntax.ancestors(node):
        if up is function:
            return
        yield up
