"""Data sets whose samples are rows of tables of numbers such as pairs of users and items, whatever their code speaks
of."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import BindingKind, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_DEPTH = 8
"""How many steps a value is followed."""
_WHOLE = regex.compile(r"^(np\.|numpy\.|torch\.)?['\"]?(u?int(8|16|32|64)?|long|int_)['\"]?$")
"""Types of whole numbers."""
_MAKES = frozenset({"LongTensor", "IntTensor", "randperm", "randint", "arange", "choice", "nonzero", "argsort", "int"})
"""What makes whole numbers."""
_CONVERTS = frozenset({"astype", "type", "to"})
_KEEPS = frozenset(
    "contiguous clone t transpose view reshape squeeze unsqueeze copy flatten detach numpy permute tolist item".split()
)
"""Methods whose result is of the type of their object."""
_JOINS = frozenset("from_numpy tensor as_tensor array asarray stack cat hstack vstack concatenate repeat".split())
"""Functions whose result is of the type of what they get."""


@query
def gives_index_rows(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    """Return whether all that ``__getitem__`` of a class returns for a number is rows of tensors of whole numbers."""
    found = project.fact(Resolver).method(module, owner, "__getitem__")
    if found is None or not isinstance(found.node, ast.FunctionDef):
        return False
    values = [value for value in project.fact(Resolver).returns(found.node) if not _is_attribute_by_name(value)]
    rows = any(isinstance(part, ast.Subscript) for part in walk(found.node))
    return rows and bool(values) and all(_is_whole(found.module, owner, value, _DEPTH) for value in values)


def _is_attribute_by_name(value: ast.expr) -> bool:
    """``getattr(self, key)``, for keys that are names"""
    return isinstance(value, ast.Call) and last_name(value.func) == "getattr"


def _is_whole(module: ModuleIndex, owner: ast.ClassDef, value: ast.expr, depth: int) -> bool:
    """Return whether a value is seen to be whole numbers, or tensors of them."""
    match value:
        case _ if depth <= 0:
            return False
        case ast.Constant():
            return isinstance(value.value, int)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return bool(parts) and all(_is_whole(module, owner, part, depth - 1) for part in parts)
        case ast.Subscript(value=inner):
            return _is_whole(module, owner, inner, depth - 1)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            given = _kept(owner, name)
            return bool(given) and all(_is_whole(module, owner, one, depth - 1) for one in given)
        case ast.Attribute(value=inner, attr="T"):
            return _is_whole(module, owner, inner, depth - 1)
        case ast.Name():
            bound = [*reaching(module, module.scope(value).lookup(value.id), value)]
            return bool(bound) and all(
                one.kind is BindingKind.ASSIGN
                and not one.path
                and one.value is not None
                and _is_whole(module, owner, one.value, depth - 1)
                for one in bound
            )
        case ast.Call():
            return _makes_whole(module, owner, value, depth)
    return False


def _makes_whole(module: ModuleIndex, owner: ast.ClassDef, call: ast.Call, depth: int) -> bool:
    name = last_name(call.func)
    types = [keyword.value for keyword in call.keywords if keyword.arg == "dtype"]
    types += call.args[:1] if name in _CONVERTS else []
    if types:
        return all(_WHOLE.match(ast.unparse(one)) for one in types)
    if name in _MAKES or (name == "long" and not call.args):
        return True
    if name in _JOINS and call.args:
        return _is_whole(module, owner, call.args[0], depth - 1)
    return (
        name in _KEEPS and isinstance(call.func, ast.Attribute) and _is_whole(module, owner, call.func.value, depth - 1)
    )


def _kept(owner: ast.ClassDef, name: str) -> list[ast.expr]:
    """Values that the methods of a class set an attribute to; none if one of them is unknown."""
    stores = [
        part
        for part in walk(owner)
        if isinstance(part, ast.Attribute) and part.attr == name and isinstance(part.ctx, ast.Store)
    ]
    found = [
        part.value
        for part in walk(owner)
        if isinstance(part, ast.Assign) and any(target in stores for target in part.targets)
    ]
    return found if len(found) == len(stores) else []
