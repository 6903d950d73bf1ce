"""Where attributes and items get their values, as one function, class or dictionary shows."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from gpulint.documents.python import walk
from gpulint.semantic.argument_binding import RECEIVERS, callback_call
from gpulint.workspace.module_index import (
    FUNCTIONS,
    FunctionNode,
    ModuleIndex,
    NodeRef,
    last_name,
)

FIELDS = frozenset({"field", "Field", "attrib", "ib"})
"""Functions of dataclasses, attrs and pydantic that describe a field of a class."""


def keeps_keywords(function: NodeRef) -> bool:
    """``for name, value in kwargs.items(): setattr(self, name, value)``."""
    return (
        isinstance(function.node, FUNCTIONS)
        and function.node.args.kwarg is not None
        and any(
            isinstance(part, ast.Call)
            and (last_name(part.func) == "setattr" or ast.unparse(part.func) == "self.__dict__.update")
            for part in walk(function.node)
        )
    )


def made_by_default(module: ModuleIndex, call: ast.Call) -> ast.Call | None:
    """Return the call that makes a field of an object: ``Paths()`` of ``field(default_factory=Paths)``."""
    if last_name(call.func) not in FIELDS:
        return None
    factory = next((one.value for one in call.keywords if one.arg in ("default_factory", "factory")), None)
    match factory:
        case ast.Lambda(body=ast.Call() as made):
            return made
        case ast.Name() | ast.Attribute():
            return callback_call(module, call, factory, [], {}, False)
    return None


def is_property(function: FunctionNode) -> bool:
    return any(last_name(decorator) in ("property", "cached_property") for decorator in function.decorator_list)


def item_under(table: ast.Dict, key: int) -> ast.expr | None:
    """The value that a dictionary has under a number."""
    for name, value in zip(table.keys, table.values, strict=True):
        if isinstance(name, ast.Constant) and name.value == key and not isinstance(name.value, bool):
            return value
    return None


def stored_before(module: ModuleIndex, node: ast.Attribute) -> tuple[list[ast.expr], bool]:
    """Return what the same function stores into ``config.name`` before this use, and whether one of these stores is
    certain."""
    if not isinstance(node.value, ast.Name) or node.value.id in RECEIVERS:
        return [], False
    function = module.function(node)
    home = function.body if function is not None else module.syntax.tree.body
    found: list[ast.expr] = []
    certain = False
    for target, value, statement in module.stored_under(node.value.id, node.attr):
        same = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
        if not same or value is None or statement.lineno >= node.lineno or module.function(statement) is not function:
            continue
        if statement in home:
            found, certain = [], True
        found.append(value)
    return found, certain


def stored_where_made(origins: Iterable[NodeRef], node: ast.Attribute) -> Iterator[NodeRef]:
    """Yield what the function that makes a namespace (``args = parse_args()``) stores into the attribute of it that
    another function reads."""
    for made in origins:
        match made.module.syntax.parents.get(made.node) if isinstance(made.node, ast.Call) else None:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) as home if value is made.node:
                function = made.module.function(home)
                for target, stored, statement in made.module.stored_under(name, node.attr):
                    same = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
                    if same and stored is not None and made.module.function(statement) is function:
                        yield NodeRef(made.module, stored)
