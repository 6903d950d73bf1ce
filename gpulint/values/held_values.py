"""Values of ``mapping.get(key, default)`` and ``getattr(object, name, default)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.semantic.argument_binding import attribute_of
from gpulint.values import strings

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.values.constants import Constants, Value
    from gpulint.workspace.module_index import NodeRef


def item(values: Constants, project: Project, ref: NodeRef, node: ast.Call) -> Iterator[Value]:
    """The values of ``mapping.get(key, default)``.

    The default counts if the key may be missing, and if nothing is known of the mapping, unless configuration files of
    the tree have the key. It counts for nothing where the key is no name, as that of a setting is (``centers.get(label,
    None)``).
    """
    from gpulint.values import tree_settings
    from gpulint.values.arguments import Arguments

    found = list(values.configs.lookup(ref))
    if not found and not isinstance(node.args[0], ast.Constant):
        found = values.texts(strings.held(project, ref.module, node))
    if found:
        yield from found
        return
    match node:
        case ast.Call(func=ast.Attribute(value=base), args=[ast.Constant(value=str(key)), *_]):
            entries, _ = project.fact(Arguments).mapping(ref.module, base, key)
        case _:
            entries = ()
    if not entries and (set_by_files := [*tree_settings.anywhere(project, ref)]):
        yield from set_by_files
        return
    if not entries and tree_settings.has_key(project, node):
        return
    if not entries and not values.of(ref.module, node.args[0]).every(lambda value: isinstance(value, str)):
        return
    known = [values.of(*entry.ref) for entry in entries]
    if not all(one.complete for one in known):
        return
    yield from (value for one in known for value in one.values)
    if not any(entry.certain for entry in entries):
        yield from _fallback(values, ref, node.args[1:])


def attribute(values: Constants, project: Project, ref: NodeRef, node: ast.Call) -> Iterator[Value]:
    """The values of ``getattr(args, "lr", default)``: the default counts if nothing is known of the attribute, unless
    configuration files of the tree have a key of its name."""
    from gpulint.values import tree_settings

    match node.args:
        case [base, ast.Constant(value=str(name)), *default]:
            known = values.of(ref.module, attribute_of(ref.module, base, name))
            yield from known.values if known.complete else ()
            if not known.values and not tree_settings.has_key(project, node):
                yield from _fallback(values, ref, default)


def _fallback(values: Constants, ref: NodeRef, default: list[ast.expr]) -> Iterator[Value]:
    from gpulint.values.constants import Value

    for expression in default[:1]:
        for value in values.of(ref.module, expression).values:
            yield Value(value.value, value.place, "default")
