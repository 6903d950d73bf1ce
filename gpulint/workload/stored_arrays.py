"""Data sets that index arrays in a file which they keep open (``self.file = h5py.File(path)``): each sample is read
from it, unless the arrays were read whole before."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.libraries.names import matches
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import Binding, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_KEYS = (ast.Name, ast.Attribute, ast.JoinedStr, ast.BinOp)
"""Kinds of expressions that may stand for the name of an array in a file, besides constants."""
MAX_STEPS = 6
"""Most names and keys that lead from what is indexed to the call that opens the file."""


@query
def reads_stored(project: Project, getter: NodeRef, data_set: NodeRef) -> bool:
    """Return whether a method that makes a sample takes a part of an array that is in a file."""
    return any(
        isinstance(part, ast.Subscript)
        and isinstance(part.ctx, ast.Load)
        and _takes_part(part)
        and _is_stored(project, NodeRef(getter.module, part.value), data_set, MAX_STEPS)
        for part in walk(getter.node)
    )


def _takes_part(subscript: ast.Subscript) -> bool:
    """``images[index]``, and not the array of a name."""
    return not (isinstance(subscript.slice, ast.Constant) and isinstance(subscript.slice.value, str))


def _is_stored(project: Project, array: NodeRef, data_set: NodeRef, steps: int) -> bool:
    """Return whether all values of an expression are an open file, or an array of one by its name."""
    node = array.node
    if not steps:
        return False
    match node:
        case ast.Subscript(value=inner, slice=key) if isinstance(key, _KEYS) or _is_name(key):
            return _is_stored(project, NodeRef(array.module, inner), data_set, steps - 1)
        case ast.Attribute(value=inner, attr="variables" | "root"):
            return _is_stored(project, NodeRef(array.module, inner), data_set, steps - 1)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            assert isinstance(data_set.node, ast.ClassDef)
            kept = data_set.module.attributes.get((data_set.node, name), ())
            values = [value for one in kept if not _is_none(value := _value(one))]
            return bool(values) and all(
                value is not None and _is_stored(project, NodeRef(data_set.module, value), data_set, steps - 1)
                for value in values
            )
        case ast.Name():
            found = [ref for ref in project.fact(Resolver).points_to(array.module, node) if ref.node is not node]
            return bool(found) and all(not ref.path and _is_stored(project, ref, data_set, steps - 1) for ref in found)
        case ast.Call():
            return _opens(project, NodeRef(array.module, node))
    return False


def _is_name(key: ast.expr) -> bool:
    return isinstance(key, ast.Constant) and isinstance(key.value, str)


def _value(binding: Binding) -> ast.expr | None:
    """Return what an attribute is set to, also by ``self.file, self.name = open(path), name``."""
    match binding.value, binding.path:
        case ast.Tuple(elts=parts), (place,) if place < len(parts):
            return parts[place]
    return binding.value if not binding.path else None


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _opens(project: Project, call: NodeRef) -> bool:
    """Return whether a call opens a file of arrays on a disk."""
    assert isinstance(call.node, ast.Call)
    patterns = tuple(name for row in project.models.rows("handle") if row.kind == "arrays" for name in row.calls)
    if not matches(patterns, project.fact(Resolver).call_names(call.module, call.node)):
        return False
    driver, whole = keyword_value(call.node, "driver"), keyword_value(call.node, "diskless")
    in_memory = isinstance(driver, ast.Constant) and driver.value == "core"
    first = call.node.args[0] if call.node.args else None
    made = isinstance(first, ast.Call) and last_name(first.func) in ("BytesIO", "MemoryStore", "KVStore", "dict")
    return not in_memory and whole is None and not made
