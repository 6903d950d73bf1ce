"""What functions compute of coordinates alone (``xyz``), which are data and have no graph."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import BindingKind, FunctionNode, ModuleIndex

_COORDINATES = regex.compile(r"(^|_)(xyz|coords?|coordinates|positions?)\d?$")
MAX_ROUNDS = 3
"""Most times that the assignments of a function are gone through."""
_Uses = dict[str, list[set[str]]]


def is_of_coordinates(module: ModuleIndex, function: FunctionNode, node: ast.AST) -> bool:
    """Return whether an expression of a function uses coordinates, or what is made of them, and no other variables."""
    free = _free_names(module, function)
    used = _used(module, function, node) if free else set()
    return bool(used) and used <= free


@query
def _free_names(module: ModuleIndex, function: FunctionNode) -> frozenset[str]:
    """The variables of a function that hold coordinates, or only what is made of them."""
    taken = {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}
    free = {name for name in taken if _COORDINATES.search(name)}
    uses: _Uses = {}
    for name, bindings in (module.scope_of[function].bindings if free else {}).items():
        given = [one for one in bindings if one.kind is not BindingKind.PARAMETER]
        plain = all(one.kind in (BindingKind.ASSIGN, BindingKind.AUGMENT) and one.value is not None for one in given)
        uses[name] = [_used(module, function, one.value) for one in given if one.value is not None] if plain else [{""}]
    for _ in range(MAX_ROUNDS):
        free |= {name for name, parts in uses.items() if parts and name not in taken and _are_free(parts, free)}
    return frozenset(name for name in free if all(part <= free for part in uses.get(name, ())))


def _are_free(parts: list[set[str]], free: set[str]) -> bool:
    return all(part and part <= free for part in parts)


def _used(module: ModuleIndex, function: FunctionNode, node: ast.AST) -> set[str]:
    """The variables of a function that an expression uses."""
    own = module.scope_of[function].bindings
    return {part.id for part in walk(node) if isinstance(part, ast.Name) and part.id in own}
