"""How many rounds a loop has, where the program says it: those over literals, and up to a number."""

from __future__ import annotations

import ast

from gpulint.placement.subscript_indices import keeps_keys
from gpulint.query import query
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import BindingKind, ModuleIndex

MAX_NAMES = 3
"""Names that a literal is followed through, at most."""
_ADDS = frozenset({"append", "extend", "insert", "add", "update", "setdefault"})


def stated(module: ModuleIndex, loop: ast.AST) -> int | None:
    """The rounds of a loop over literals or up to a literal number; None if it does not say."""
    match loop:
        case ast.For(iter=source) | ast.AsyncFor(iter=source) | ast.comprehension(iter=source):
            return length_of(module, source)
    return None


def length_of(module: ModuleIndex, source: ast.expr, depth: int = 0) -> int | None:
    """Return how many elements a literal has, or what is made of one: ``enumerate(names)``,
    ``{name: 0.0 for name in names}``, ``range(len(names))``; None if that is unknown."""
    match source:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return None if any(isinstance(part, ast.Starred) for part in parts) else len(parts)
        case ast.Dict(keys=keys) if depth:
            return None if None in keys else len(keys)
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))]):
            return count
        case ast.Call(func=ast.Name(id="range"), args=[ast.Name(id=name) as count]):
            given = [one.value for one in module.scope(count).lookup(name)]
            match given:
                case [ast.Constant(value=int(rounds))]:
                    return rounds
        case ast.Call(func=ast.Name(id="range"), args=[ast.Call(func=ast.Name(id="len"), args=[inner])]):
            return length_of(module, inner, depth)
        case ast.Call(func=ast.Name(id="enumerate" | "list" | "reversed" | "sorted" | "tuple"), args=[inner, *_]):
            return length_of(module, inner, depth)
        case ast.Call(func=ast.Attribute(value=inner, attr="items" | "keys" | "values"), args=[]):
            return length_of(module, inner, max(depth, 1))
        case ast.Call(func=ast.Name(id="zip"), args=parts):
            return min((one for part in parts if (one := length_of(module, part, depth)) is not None), default=None)
        case ast.DictComp(generators=[part]) | ast.ListComp(generators=[part]) if depth and not part.ifs:
            return length_of(module, part.iter, depth)
        case ast.Name(id=name) if depth < MAX_NAMES:
            bindings = reaching(module, module.scope(source).lookup(name), source)
            if any(one.kind is not BindingKind.ASSIGN or one.path or one.value is None for one in bindings):
                return None
            made = [one.value for one in bindings if one.value is not None and not keeps_keys(one.value, name)]
            lengths = {length_of(module, value, depth + 1) for value in made}
            return None if len(lengths) != 1 or _grows(module, name) else lengths.pop() or None
    return None


@query
def _grows(module: ModuleIndex, name: str) -> bool:
    """Return whether a module adds something to what a name stands for."""
    for use in module.uses.get(name, ()):
        up = module.syntax.parents.get(use)
        match up:
            case ast.Attribute(attr=attr) if attr in _ADDS:
                return True
            case ast.Subscript(ctx=ast.Store()) as item if isinstance(module.syntax.parents.get(item), ast.Assign):
                return True
    return False
