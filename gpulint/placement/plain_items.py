"""Items of data sets that are texts and numbers of their lists, followed through the variables of ``__getitem__``."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.workspace.module_index import Binding, FunctionNode

TEXT = regex.compile(
    r"(^|_)(prompts?|texts?|captions?|sentences?|questions?|queries|query|names?|filenames?|paths?|files?|urls?)$",
    re.IGNORECASE,
)
"""Names of what is text."""
_TEXTS = regex.compile(rf"({TEXT.pattern})|(^|_)(captions|prompts|texts|names|filenames|paths)_\w+$", re.IGNORECASE)
"""Names of lists of texts, also of a part of them (``paths_train``)."""
_TENSORS = regex.compile(
    r"token|encod|tensor|embed|stack|feature|loader$|\b(torch|np|numpy|joblib|pickle)\.|\bImage\.|imread|read_image",
    re.IGNORECASE,
)
"""Functions whose results are tensors or arrays whatever they are called, or may be."""
_NUMBERS = frozenset({"int", "float", "len", "ord", "hash", "bool"})
_WORDS = frozenset(
    {"str", "join", "basename", "format", "strip", "lower", "replace", "glob", "listdir", "Path", "stem"}
)
_KEEPS = frozenset({"list", "sorted", "tuple", "reversed", "filter"})
_CHANGES = frozenset({"extend", "insert", "update"})
_DEPTH = 12
"""How many steps a value is followed."""


class PlainItems:
    """What ``__getitem__`` of a class in a module returns: look-ups of texts and numbers, or anything else."""

    def __init__(self, module: ModuleIndex, owner: ast.ClassDef) -> None:
        self._module, self._owner = module, owner

    def are_all(self, method: FunctionNode) -> bool:
        """Return whether all that a method returns is texts and numbers, and one of them is a text."""
        returned = [part.value for part in walk(method) if isinstance(part, ast.Return)]
        fields = [field for value in returned for field in _fields(value)]
        return (
            bool(fields)
            and any(self._is_text(field, _DEPTH) for field in fields)
            and all(self._is_plain(field, _DEPTH) for field in fields)
        )

    def _is_text(self, value: ast.expr | None, depth: int) -> bool:
        """Return whether a value is an element of a list that is one of texts by its name."""
        match value:
            case ast.Name() if depth > 0:
                bound = self._bound(value)
                return bool(bound) and all(self._is_text(_given(one), depth - 1) for one in bound)
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                return self._holds_texts(name)
        return False

    def _is_plain(self, value: ast.expr | None, depth: int) -> bool:
        """Return whether a value is seen to be a text or a number."""
        match value:
            case _ if depth <= 0:
                return False
            case ast.Constant() | ast.JoinedStr():
                return True
            case ast.Name():
                bound = self._bound(value)
                return bool(bound) and all(self._is_bound_plain(one, depth) for one in bound)
            case ast.Subscript(value=inner):
                return self._holds_plain(inner, depth - 1)
            case ast.BinOp(left=left, right=right):
                return self._is_plain(left, depth - 1) and self._is_plain(right, depth - 1)
            case ast.Call(func=called):
                return last_name(called) in _NUMBERS | (_WORDS - {"glob", "listdir"})
        return False

    def _holds_plain(self, value: ast.expr | None, depth: int) -> bool:
        """Return whether a value is a list of texts and numbers."""
        match value:
            case _ if depth <= 0:
                return False
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return self._holds_texts(name) or self._is_filled_plain(name, depth)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts):
                return all(self._is_plain(part, depth - 1) for part in parts)
            case ast.ListComp(elt=part):
                return self._is_plain(part, depth - 1)
            case ast.Subscript(value=inner, slice=ast.Slice()):
                return self._holds_plain(inner, depth - 1)
            case ast.Name():
                bound = self._bound(value)
                return bool(bound) and all(self._holds_plain(_given(one), depth - 1) for one in bound)
            case ast.Call(func=called, args=given):
                name = last_name(called)
                if name in _KEEPS and given:
                    return self._holds_plain(given[-1], depth - 1)
                return name in ("range", "glob", "listdir")
        return False

    def _is_bound_plain(self, bound: Binding, depth: int) -> bool:
        if bound.kind is BindingKind.PARAMETER:
            return _is_index(bound)
        if bound.kind is BindingKind.AUGMENT and isinstance(bound.node, ast.AugAssign):
            return self._is_plain(bound.node.value, depth - 1)
        if bound.kind is not BindingKind.LOOP:
            return self._is_plain(_given(bound), depth - 1)
        value = bound.value
        if isinstance(value, ast.Call) and last_name(value.func) == "enumerate" and len(bound.path) == 1:
            return bound.path[0] == 0 or (bool(value.args) and self._holds_plain(value.args[0], depth - 1))
        return not bound.path and self._holds_plain(value, depth - 1)

    def _is_filled_plain(self, name: str, depth: int) -> bool:
        """Return whether all that methods of the class put into a list of their object is texts and numbers."""
        stores, added = self._filled(name)
        if stores is None or not stores:
            return False
        return all(self._holds_plain(one, depth - 1) for one in stores) and all(
            self._is_plain(one, depth - 1) for one in added
        )

    def _holds_texts(self, name: str) -> bool:
        """Return whether an attribute is a list of texts by its name, and nothing makes tensors of them."""
        if not _TEXTS.search(name):
            return False
        stores, added = self._filled(name)
        calls = (part for one in [*(stores or ()), *added] for part in walk(one) if isinstance(part, ast.Call))
        return stores is not None and not any(_TENSORS.search(ast.unparse(call.func)) for call in calls)

    def _filled(self, name: str) -> tuple[list[ast.expr] | None, list[ast.expr]]:
        """Return what the class sets an attribute to, None if a part of that is unknown, and what it appends to it."""
        stores, added, known = list[ast.expr](), list[ast.expr](), 0
        for part in walk(self._owner):
            match part:
                case ast.Assign(targets=targets, value=value):
                    stores += [value for target in targets if _is_own(target, name)]
                case ast.AnnAssign(target=target, value=ast.expr() as value) if _is_own(target, name):
                    stores.append(value)
                case ast.Attribute(ctx=ast.Store()) if _is_own(part, name):
                    known += 1
                case ast.Call(func=ast.Attribute(value=held, attr=method), args=given) if _is_own(held, name):
                    added += given if method == "append" else []
                    known += method in _CHANGES
        return (stores if len(stores) == known else None), added

    def _bound(self, name: ast.Name) -> list[Binding]:
        return [*reaching(self._module, self._module.scope(name).lookup(name.id), name)]


def _given(bound: Binding) -> ast.expr | None:
    """Return what an assignment gives a variable, also one of several; None where that is not seen."""
    if bound.kind is not BindingKind.ASSIGN:
        return None
    value = bound.value
    for step in bound.path:
        if not isinstance(value, ast.Tuple | ast.List) or step >= len(value.elts):
            return None
        value = value.elts[step]
    return value


def _is_index(bound: Binding) -> bool:
    """Return whether a parameter is that of ``__getitem__``."""
    return isinstance(bound.scope.node, FUNCTIONS) and bound.scope.node.name == "__getitem__"


def _is_own(value: ast.AST, name: str) -> bool:
    return (
        isinstance(value, ast.Attribute)
        and value.attr == name
        and isinstance(value.value, ast.Name)
        and value.value.id == "self"
    )


def _fields(value: ast.expr | None) -> list[ast.expr | None]:
    match value:
        case ast.Tuple(elts=fields) | ast.List(elts=fields) | ast.Dict(values=fields):
            return list(fields)
    return [value]
