"""Which names of a subscript count the elements of a tensor, and are no keys of a dictionary of tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpulint.documents.python import walk
from gpulint.workspace.module_index import COMPREHENSIONS, FUNCTIONS, LoopNode, ModuleIndex, last_name

_ORDERS = frozenset({"list", "sorted", "set", "tuple", "reversed"})


def index_names(
    module: ModuleIndex, subscript: ast.Subscript, loops: Iterable[LoopNode | ast.comprehension]
) -> set[str]:
    """Return the names in the index of a subscript, without those that are keys: what a loop of ``loops`` takes from a
    dictionary or a list of texts, and texts that are put together."""
    index = subscript.slice
    if any(isinstance(part, ast.JoinedStr) or _is_text(part) for part in walk(index)):
        return set()
    names = {part.id for part in walk(index) if isinstance(part, ast.Name)}
    for loop in loops:
        if isinstance(loop, ast.For | ast.AsyncFor | ast.comprehension):
            names -= _keys(module, loop, ast.unparse(subscript.value))
    return names


def _keys(module: ModuleIndex, loop: ast.For | ast.AsyncFor | ast.comprehension, indexed: str) -> set[str]:
    """The names of a loop that are keys: ``for key in losses``, ``for key, _ in losses.items()``, ``for key in ("a",
    "b")``."""
    source, target = loop.iter, loop.target
    if isinstance(source, ast.Call) and last_name(source.func) == "items" and isinstance(target, ast.Tuple):
        target = target.elts[0]
    elif not (_holds_keys(module, source) or ast.unparse(source) == indexed):
        return set()
    return {target.id} if isinstance(target, ast.Name) else set()


def _holds_keys(module: ModuleIndex, node: ast.expr, named: bool = True) -> bool:
    """Return whether an expression gives keys or texts: ``sorted(losses.keys())``, ``[key for key in losses.keys() if
    key != "total"]``, also by the one name that it is given."""
    match node:
        case ast.Call(func=func, args=[inner]) if last_name(func) in _ORDERS:
            return _holds_keys(module, inner, named)
        case ast.Call(func=func):
            return last_name(func) == "keys"
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return any(map(_is_text, parts))
        case ast.ListComp(elt=ast.Name(id=kept), generators=[ast.comprehension(target=ast.Name(id=name), iter=source)]):
            return kept == name and _holds_keys(module, source, named)
        case ast.Dict(keys=keys):
            return any(key is not None and _is_text(key) for key in keys)
        case ast.DictComp(key=ast.Name(id=kept), generators=[ast.comprehension(target=ast.Name(id=name), iter=source)]):
            return kept == name and _holds_keys(module, source, named)
        case ast.Name(id=name) if named:
            bindings = module.scope(node).lookup(name)
            values = [one.value for one in bindings if one.value is not None and not one.path]
            made = [one for one in values if not keeps_keys(one, name)]
            return bool(made) and len(values) == len(bindings) and all(_holds_keys(module, one, False) for one in made)
    return False


def keeps_keys(value: ast.expr, name: str) -> bool:
    """Return whether what a name is bound to has the keys that it had before: ``sums = {key: 0.0 for key in sums}``."""
    match value:
        case ast.DictComp(key=ast.Name(id=key), generators=[ast.comprehension(target=target, iter=source, ifs=[])]):
            if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute):
                if source.func.attr == "items" and isinstance(target, ast.Tuple):
                    target = target.elts[0]
                elif source.func.attr != "keys":
                    return False
                source = source.func.value
            return isinstance(source, ast.Name) and source.id == name and ast.unparse(target) == key
    return False


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def loops_around(module: ModuleIndex, node: ast.AST) -> list[LoopNode | ast.comprehension]:
    """Loops and comprehensions around a node within its function, innermost first."""
    found: list[LoopNode | ast.comprehension] = []
    for up in module.syntax.ancestors(node):
        if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            break
        if isinstance(up, COMPREHENSIONS):
            found += up.generators
        elif isinstance(up, ast.For):
            found.append(up)
    return found


def targets(loop: LoopNode | ast.comprehension) -> set[str]:
    """Names that a loop sets."""
    return {part.id for part in walk(loop.target) if isinstance(part, ast.Name)} if hasattr(loop, "target") else set()


def source_of(loop: LoopNode | ast.comprehension, name: str) -> ast.expr | None:
    """Return what a loop goes through for one of its names: ``labels`` of ``for p, y in zip(preds, labels)``."""
    if not isinstance(loop, ast.For | ast.AsyncFor | ast.comprehension):
        return None
    target, source = loop.target, loop.iter
    while True:
        match target, source:
            case ast.Tuple(elts=[_, inner]), ast.Call(func=ast.Name(id="enumerate"), args=[of, *_]):
                target, source = inner, of
            case ast.Tuple(elts=parts), ast.Call(func=ast.Name(id="zip"), args=sources) if len(parts) == len(sources):
                at = next((at for at, part in enumerate(parts) if isinstance(part, ast.Name) and part.id == name), None)
                return sources[at] if at is not None else None
            case ast.Name(id=own), _:
                return source if own == name else None
            case _:
                return None


def is_limited(loop: LoopNode | ast.comprehension) -> bool:
    """``for i in range(min(n, shown))``: a few examples are looked at."""
    return isinstance(loop, ast.For | ast.comprehension) and any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in ("min", "islice")
        for part in walk(loop.iter)
    )
