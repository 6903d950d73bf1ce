"""Inner loops over a table or a list that holds one entry, as what makes it shows: one loss, one output."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name
from gpulint_rules.data.wait_counts import table_of

_VIEWS = frozenset({"items", "values", "keys"})
_TABLES = frozenset({"dict", "OrderedDict"})
_CHANGES = frozenset({"append", "extend", "insert", "add", "update", "setdefault"})


@query
def has_one_entry(project: Project, module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether all that a loop goes through is made with one entry, in the tree, and nothing adds another."""
    table = table_of(loop)
    match table:
        case ast.Call(func=ast.Attribute(value=inner, attr=view), args=[]) if view in _VIEWS:
            table = inner
    if not isinstance(table, ast.Name | ast.Attribute | ast.Call):
        return False
    kept = {part.id for part in ast.walk(getattr(loop, "target", loop)) if isinstance(part, ast.Name)}
    added = _added(module, table, kept) if isinstance(table, ast.Name) else frozenset[str]()
    origins = project.fact(Resolver).points_to(module, table)
    return added is not None and all(_entries(ref, added) == 1 for ref in origins)


def _entries(made: NodeRef, more: frozenset[str]) -> int | None:
    """Return how many entries a table or list has, with those added by name; None if unknown."""
    known = _written(made.node) if not made.path else None
    if known is None:
        return None
    keys, others = known
    match made.module.syntax.parents.get(made.node):
        case ast.Assign(targets=[ast.Name() as name]) | ast.AnnAssign(target=ast.Name() as name):
            if (added := _added(made.module, name, set())) is None:
                return None
            keys = keys | added
    return len(keys | more) + others


def _written(node: ast.AST) -> tuple[frozenset[str], int] | None:
    """The keys that a literal table has by name, and the number of its other entries."""
    match node:
        case ast.Dict(keys=keys) if None not in keys:
            named = frozenset(key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
            return named, len(keys) - len(named)
        case ast.Call(args=[], keywords=given) if last_name(node.func) in _TABLES:
            names = [one.arg for one in given]
            return None if None in names else (frozenset(name for name in names if name is not None), 0)
        case ast.List(elts=parts) | ast.Tuple(elts=parts) if not any(isinstance(one, ast.Starred) for one in parts):
            return frozenset(), len(parts)
    return None


def _added(module: ModuleIndex, name: ast.Name, kept: set[str]) -> frozenset[str] | None:
    """The keys that the function around a variable stores in it; None if others than those in ``kept`` variables may be
    among them."""
    found = set[str]()
    for key in _stored(module, name):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found.add(key.value)
        elif not (isinstance(key, ast.Name) and key.id in kept):
            return None
    return frozenset(found)


def _stored(module: ModuleIndex, name: ast.Name) -> Iterator[ast.expr | None]:
    function = module.function(name)
    for use in module.uses.get(name.id, ()):
        if module.function(use) is not function:
            continue
        match module.syntax.parents.get(use):
            case ast.Attribute(attr=attr) if attr in _CHANGES:
                yield None
            case ast.Subscript(value=value, slice=key, ctx=ast.Store()) if value is use:
                yield key
            case ast.AugAssign():
                yield None
