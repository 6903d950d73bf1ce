"""Functions that copy a mapping to an object: ``for key, value in config.items(): setattr(made, key, value)``."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex


@query
def copied_to(module: ModuleIndex, made: ast.Call) -> tuple[ast.Name, ...]:
    """Return the mappings of which a function sets each item as an attribute of the object that a call in it makes."""
    function, target = module.function(made), module.syntax.parents.get(made)
    if not isinstance(function, FUNCTIONS) or not isinstance(target, ast.Assign):
        return ()
    names = {one.id for one in target.targets if isinstance(one, ast.Name)}
    found = []
    for part in walk(function):
        match part:
            case ast.For(
                target=ast.Tuple(elts=[ast.Name(id=key), _]),
                iter=ast.Call(func=ast.Attribute(attr="items", value=ast.Name() as mapping), args=[]),
            ) if any(_sets(inner, names, key) for statement in part.body for inner in walk(statement)):
                found.append(mapping)
    return tuple(found)


def _sets(part: ast.AST, names: set[str], key: str) -> bool:
    """``setattr(made, key, value)``"""
    match part:
        case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id=made), ast.Name(id=name), _]):
            return made in names and name == key
    return False
