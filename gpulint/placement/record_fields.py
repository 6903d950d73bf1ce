"""Fields of named tuples and data classes, and what the calls that make them give each."""

from __future__ import annotations

import ast

from gpulint.workspace.module_index import last_name


def given_field(owner: ast.ClassDef, call: ast.Call, name: str) -> ast.expr | None:
    """Return what a call gives the field ``name`` of a named tuple or a data class; None for another class, and where
    the call unpacks its arguments or leaves the field to its default."""
    if not _is_record(owner) or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    fields = [
        part.target.id for part in owner.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    ]
    if name in fields[: len(call.args)]:
        return call.args[fields.index(name)]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name and name in fields), None)


def _is_record(owner: ast.ClassDef) -> bool:
    """Return whether a class has fields, and nothing of its own that makes its objects."""
    decorators = {last_name(one.func if isinstance(one, ast.Call) else one) for one in owner.decorator_list}
    named = any(last_name(base) == "NamedTuple" for base in owner.bases)
    makes = {"__init__", "__new__", "__post_init__"}
    return (named or (decorators == {"dataclass"} and not owner.bases)) and not any(
        isinstance(part, ast.FunctionDef) and part.name in makes for part in owner.body
    )
