"""What a call that declares an option says: its flags, the names of its value, its type, and options that a loop over a
mapping declares."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.call_syntax import keyword_value
from gpulint.numerals import MAX_DIGITS
from gpulint.query import query
from gpulint.semantic.declared_options import option_of
from gpulint.workspace.module_index import ModuleIndex

MANY = ""
"""Stands for the names of options that a loop declares."""
_DECLARES = ("add_argument", "add_arg")


@query
def declaring_calls(module: ModuleIndex) -> dict[str, list[ast.Call]]:
    """Return the calls of a module that declare options, by the name of their value; under :data:`MANY` those for each
    key of a mapping."""
    table: dict[str, list[ast.Call]] = {}
    for call in (call for name in _DECLARES for call in module.calls_by_name.get(name, [])):
        names = dests(call) or ([MANY] if mapping_of(module, call) is not None else [])
        for dest in names:
            table.setdefault(dest, []).append(call)
    for name, calls in module.calls_by_name.items():
        if name.startswith("DEFINE_"):
            for call in calls:
                if call.args and isinstance(call.args[0], ast.Constant):
                    table.setdefault(str(call.args[0].value), []).append(call)
    return table


def mapping_of(module: ModuleIndex, option: ast.Call) -> ast.expr | None:
    """Return the mapping of which each key is an option and its value the default: ``for key, value in config.items():
    parser.add_argument(f"--{key}", default=value)``."""
    default = keyword_value(option, "default")
    key = next(_named_in(option.args[0]), None) if option.args else None
    if default is None or key is None:
        return None
    for up in module.syntax.ancestors(option):
        match up:
            case ast.For(
                target=ast.Tuple(elts=[ast.Name(id=name), ast.Name(id=value)]),
                iter=ast.Call(func=ast.Attribute(value=mapping, attr="items"), args=[]),
            ) if name == key and isinstance(default, ast.Name) and default.id == value:
                return mapping
            case ast.For(target=ast.Name(id=name)) if name == key:
                return _looked_up(default, key)
    return None


@query
def fillings(module: ModuleIndex) -> tuple[tuple[ast.expr, ast.expr], ...]:
    """Return objects whose attributes a module sets to all that a mapping holds, and the mapping: ``for key, value in
    config.items(): setattr(args, key, value)``, ``vars(args).update(config)``, ``args.__dict__.update(config)``, also
    where a variable holds ``vars(args)``."""
    found: list[tuple[ast.expr, ast.expr]] = []
    for call in module.calls_by_name.get("setattr", ()):
        match call.args, module.syntax.parents.get(module.syntax.parents.get(call, call)):
            case (
                [filled, ast.Name(id=key), ast.Name(id=value)],
                ast.For(
                    target=ast.Tuple(elts=[ast.Name(id=name), ast.Name(id=item)]),
                    iter=ast.Call(func=ast.Attribute(value=mapping, attr="items"), args=[]),
                ),
            ) if (key, value) == (name, item):
                found.append((filled, mapping))
    for call in module.calls_by_name.get("update", ()):
        match call:
            case ast.Call(func=ast.Attribute(value=owner), args=[mapping]):
                if (holder := _of_attributes(module, owner)) is not None:
                    found.append((holder, mapping))
    return tuple(found)


def _of_attributes(module: ModuleIndex, owner: ast.expr) -> ast.expr | None:
    """Return the object whose attributes a mapping is, by itself or as the only value of a variable; None for other
    mappings."""
    if isinstance(owner, ast.Name):
        bindings = module.scope(owner).lookup(owner.id)
        only = bindings[0] if len(bindings) == 1 and not bindings[0].path else None
        if only is None or only.value is None:
            return None
        owner = only.value
    match owner:
        case ast.Call(func=ast.Name(id="vars"), args=[filled]) | ast.Attribute(value=filled, attr="__dict__"):
            return filled
    return None


def _named_in(flag: ast.expr) -> Iterator[str]:
    """``key`` of ``f"--{key}"`` and ``"--" + key``"""
    match flag:
        case ast.JoinedStr(values=[ast.Constant(value="--"), ast.FormattedValue(value=ast.Name(id=name))]):
            yield name
        case ast.BinOp(left=ast.Constant(value="--"), op=ast.Add(), right=ast.Name(id=name)):
            yield name
        case ast.BinOp(left=ast.Constant(value="--%s"), op=ast.Mod(), right=ast.Name(id=name)):
            yield name
        case ast.Call(func=ast.Attribute(value=ast.Constant(value="--{}"), attr="format"), args=[ast.Name(id=name)]):
            yield name


def _looked_up(default: ast.expr, key: str) -> ast.expr | None:
    """``config`` of ``config[key]``"""
    match default:
        case ast.Subscript(value=mapping, slice=ast.Name(id=name)) if name == key:
            return mapping
    return None


def is_true(node: ast.expr | None) -> bool:
    """Return whether an expression is ``True``."""
    return isinstance(node, ast.Constant) and node.value is True


def flags(call: ast.Call) -> tuple[str, ...]:
    """The option strings of an ``add_argument`` or ``click.option`` call."""
    return option_of(call).flags


def dests(call: ast.Call) -> list[str]:
    """Attribute names under which an option's value appears."""
    option = option_of(call)
    dest = option.literal("dest")
    if dest not in (None, Ellipsis):
        return [str(dest)]
    long = [word for word in option.words if word.startswith("--")] or option.words
    return [word.lstrip("-").split("/")[0].replace("-", "_") for word in long]


def typed(call: ast.Call, text: str) -> object:
    """A launcher's word with the option's own ``type`` applied."""
    option = option_of(call)
    if option.action in ("store_true", "store_false"):
        return option.action == "store_true"  # what follows is no value of it
    return word_as(option.kind, text)


def word_as(wanted: str, text: str) -> object:
    """A launcher's word as a value of a type."""
    try:
        if wanted == "float":
            return float(text)
        if wanted == "int" or text.lstrip("-").isdecimal():
            return int(text) if len(text) <= MAX_DIGITS else text
    except ValueError:
        return text
    return {"true": True, "false": False}.get(text.lower(), text)
