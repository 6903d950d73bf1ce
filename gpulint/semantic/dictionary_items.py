"""What a dictionary holds under a key, going by the expression that makes it: a display, ``dict(...)``, a union of
others, the attributes of an object, the keywords that callers pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.semantic.argument_binding import UnpackedArgument, attribute_of, item_of
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.semantic.points_to import Resolver

_VIEWS = frozenset({"vars", "asdict", "to_container", "to_object"})
"""Functions that return the attributes of their first argument as a dictionary."""
_OWN_VIEWS = frozenset({"model_dump", "dict", "to_dict", "_asdict"})
"""Methods that return the attributes of their object as a dictionary."""
_ADDS = frozenset({"update", "setdefault"})
_CHOSEN = (ast.Dict, ast.Name, ast.Attribute, ast.Call, ast.Lambda)
"""What a table may hold that is followed if the key is unknown; numbers and texts are choices of which one counts."""


def items(resolver: Resolver, made: NodeRef, key: str) -> list[NodeRef]:
    """Expressions that the dictionary which ``made`` evaluates to may have under a key, also once it was updated."""
    found = _items(resolver, made, key)
    return [*found, *_updated(resolver, made, key)] if found else found


def _items(resolver: Resolver, made: NodeRef, key: str) -> list[NodeRef]:
    module = made.module
    match made.node:
        case ast.Dict(keys=keys, values=values):
            return _last(module, list(zip(keys, values, strict=True)), key)
        case ast.Call(func=ast.Name(id="dict"), args=args, keywords=keywords):
            given: list[tuple[ast.expr | None, ast.expr]] = [(None, arg) for arg in args]
            given += [(ast.Constant(one.arg) if one.arg is not None else None, one.value) for one in keywords]
            return _last(module, given, key)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _last(module, [(None, left), (None, right)], key)
        case (
            ast.Call(func=ast.Attribute(value=base, attr="copy"), args=[])
            | ast.DictComp(
                key=ast.Name(),
                value=ast.Name(),
                generators=[ast.comprehension(iter=ast.Call(func=ast.Attribute(value=base, attr="items")))],
            )  # ``{k: v for k, v in data.items() if k in known}``
        ):
            return [NodeRef(module, item_of(module, base, key))]
        case ast.arg():
            return list(_passed(resolver, made, key))
        case ast.expr() as node if (held := viewed(node)) is not None:
            return [NodeRef(module, attribute_of(module, held, key))]
    return []


def viewed(node: ast.AST) -> ast.expr | None:
    """The object whose attributes a dictionary has as its items: ``args`` of ``vars(args)``."""
    match node:
        case ast.Attribute(value=held, attr="__dict__"):
            return held
        case ast.Call(func=func, args=[held, *_]) if last_name(func) in _VIEWS:
            return held
        case ast.Call(func=ast.Attribute(value=held, attr=method), args=[]) if method in _OWN_VIEWS:
            return held
    return None


def chosen(
    resolver: Resolver,
    module: ModuleIndex,
    base: ast.expr,
    kinds: type[ast.expr] | tuple[type[ast.expr], ...] = _CHOSEN,
) -> Iterator[NodeRef]:
    """Yield what ``TABLE[name]`` may be if the name is unknown: each entry of a dictionary that is written out, if
    all are of these kinds."""
    for made in resolver.points_to(module, base):
        if not isinstance(made.node, ast.Dict) or made.path or not all(made.node.keys):
            return
        if not all(isinstance(value, kinds) for value in made.node.values):
            return
        yield from (NodeRef(made.module, value) for value in made.node.values)


def chosen_origins(
    resolver: Resolver, module: ModuleIndex, node: ast.Subscript, base: ast.expr, path: tuple[int, ...]
) -> Iterator[NodeRef]:
    """Yield where the values of such entries come from, or those of an element of each (``make, weights =
    TABLE[name]``); the expression itself if they are unknown."""
    entries = list(chosen(resolver, module, base, (ast.Tuple, ast.List) if path else _CHOSEN))
    if path and not all(_holds_at(entry.node, path[0]) for entry in entries):
        entries = []
    for entry in entries:
        yield from resolver.points_to(entry.module, entry.node, path)
    if not entries:
        yield NodeRef(module, node, path)


def _holds_at(entry: ast.AST, index: int) -> bool:
    """Return whether a tuple has something at an index that is followed."""
    parts = entry.elts if isinstance(entry, ast.Tuple | ast.List) else []
    return -len(parts) <= index < len(parts) and isinstance(parts[index], _CHOSEN)


def lacks(resolver: Resolver, module: ModuleIndex, argument: ast.Starred, key: str) -> bool:
    """Return whether what ``**options`` unpacks certainly has no such key: it is written out, and nothing is added."""
    mapping = argument.value
    name = last_name(mapping)
    added = name and (module.calls_by_name.keys() & _ADDS or module.stores.get(name))
    if added or not isinstance(argument, UnpackedArgument):
        return False
    return all(
        isinstance(made.node, ast.Dict)
        and not made.path
        and all(isinstance(one, ast.Constant) and one.value != key for one in made.node.keys)
        for made in resolver.points_to(module, mapping)
    )


def _last(module: ModuleIndex, given: list[tuple[ast.expr | None, ast.expr]], key: str) -> list[NodeRef]:
    """The item under a key where later ones replace earlier ones; what is unpacked may have it or not."""
    found: list[NodeRef] = []
    for name, value in reversed(given):
        if name is None:
            found.append(NodeRef(module, item_of(module, value, key)))
        elif isinstance(name, ast.Constant) and name.value == key:
            return [*found, NodeRef(module, value)]
    return found


def _updated(resolver: Resolver, made: NodeRef, key: str) -> Iterator[NodeRef]:
    """Yield what ``settings.update(...)`` puts under a key of the dictionary that is made and named so."""
    module = made.module
    named = module.syntax.parents.get(made.node)
    targets = named.targets if isinstance(named, ast.Assign) else ()
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    for call in module.calls_by_name.get("update", ()) if names else ():
        match call.func:
            case ast.Attribute(value=ast.Name(id=name) as base) if name in names:
                if module.scope(base).lookup(name) is not module.scope(made.node).lookup(name):
                    continue
            case _:
                continue
        yield from (NodeRef(module, keyword.value) for keyword in call.keywords if keyword.arg == key)
        for given in (*call.args, *(keyword.value for keyword in call.keywords if keyword.arg is None)):
            for ref in resolver.points_to(module, given):
                held = items(resolver, ref, key)
                yield from held
                if not held and not _lacks(ref, key):
                    yield NodeRef(module, item_of(module, given, key))


def _lacks(ref: NodeRef, key: str) -> bool:
    """Return whether a dictionary that is written out, or what callers pass for ``**kwargs``, has no such key."""
    match ref.node:
        case ast.Dict(keys=keys):
            return all(isinstance(one, ast.Constant) and one.value != key for one in keys)
        case ast.arg():
            arguments = ref.module.syntax.parents.get(ref.node)
            return isinstance(arguments, ast.arguments) and arguments.kwarg is ref.node
    return False


def _passed(resolver: Resolver, parameter: NodeRef, key: str) -> Iterator[NodeRef]:
    """Yield what callers pass under a name for the ``**kwargs`` of a function."""
    module = parameter.module
    arguments = module.syntax.parents.get(parameter.node)
    function = module.syntax.parents.get(arguments) if arguments is not None else None
    if not isinstance(function, FUNCTIONS) or function.args.kwarg is not parameter.node:
        return
    for site in resolver.first_sites(module, function):
        assert isinstance(site.node, ast.Call)
        for keyword in site.node.keywords:
            if keyword.arg == key:
                yield NodeRef(site.module, keyword.value)
            elif keyword.arg is None:
                yield NodeRef(site.module, item_of(site.module, keyword.value, key))


def is_in_branch(module: ModuleIndex, store: ast.AST, use: ast.AST) -> bool:
    """Return whether a place is in a branch of a function that its other place need not come through."""
    around = set(module.syntax.ancestors(use))
    return any(isinstance(up, ast.If) and up not in around for up in module.syntax.ancestors(store))
