"""Syntax trees in less than half of the memory: the same nodes, with slots in place of dictionaries.

A node of :mod:`ast` keeps its fields in a dictionary of its own, which takes 180 to 270 bytes. The classes here derive
from those of :mod:`ast` and differ in that alone, so ``isinstance``, ``match`` and :mod:`ast`'s functions treat both
alike; only ``type(node)`` is another class (see :data:`KINDS`), and ``ast.dump`` shows fields that hold None. Nodes
also know their parent.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, TypeVar, overload

D = TypeVar("D")

_PLAIN = frozenset(
    "ctx op ops id attr arg name asname kind type_comment module level conversion simple is_async rest kwd_attrs "
    "type_ignores".split()
)
"""Fields that hold no nodes, or only markers (``Load``, ``Add``) that all trees share."""


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """Fields that may hold children, by kind of node."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        self[kind] = tuple(field for field in kind._fields if field not in _PLAIN)
        return self[kind]


FIELDS = _Fields({ast.Constant: (), ast.Global: (), ast.Nonlocal: (), ast.MatchSingleton: ()})
"""Fields that may hold children."""


class _Follows:
    """An attribute that nearly always follows from the others; a node where it is another one holds it in the
    dictionary that any node may have, which comes before this."""

    def __init__(self, find: Callable[[Any], Any]) -> None:
        self._find = find

    def __get__(self, node: Any, owner: type) -> Any:
        return self._find(node)


_WITHOUT_SLOT: dict[type[ast.AST], dict[str, Any]] = {
    ast.Constant: {"kind": None},
    ast.Name: {
        "end_lineno": _Follows(lambda name: name.lineno),
        "end_col_offset": _Follows(lambda name: name.col_offset + len(name.id)),
    },
}
"""What nodes of frequent kinds take no memory for."""


class _Kinds(dict[type[ast.AST], type[Any]]):
    """The compact class of each class of nodes, made when the first node needs it."""

    def __missing__(self, kind: type[ast.AST]) -> type[Any]:
        others = _WITHOUT_SLOT.get(kind, {})
        slots = tuple(name for name in (*kind._fields, *kind._attributes, "parent") if name not in others)
        made = self[kind] = type(kind.__name__, (kind,), {"__slots__": slots, "__module__": __name__, **others})
        FIELDS[made] = FIELDS[kind]
        return made


KINDS = _Kinds()
"""The class of compact nodes, by the class of :mod:`ast`."""
Name, Attribute, Constant, Call = KINDS[ast.Name], KINDS[ast.Attribute], KINDS[ast.Constant], KINDS[ast.Call]
_keyword, _Subscript, _Assign, _arg = KINDS[ast.keyword], KINDS[ast.Subscript], KINDS[ast.Assign], KINDS[ast.arg]
_new: Any = ast.AST.__new__
"""Makes a node without its constructor, which would check each field."""
_EMPTY: list[ast.AST] = []
"""What all lists of nodes are that hold none; nobody changes a tree."""
_NUMBERS = [0]
"""Line numbers, of which all nodes share the same objects."""


def both(*kinds: type[ast.AST]) -> frozenset[type[ast.AST]]:
    """Return classes of nodes with their compact ones, for tests of ``type(node)``."""
    return frozenset((*kinds, *(KINDS[kind] for kind in kinds)))


def compacted(tree: ast.Module) -> tuple[ast.Module, list[ast.AST]]:
    """Return a tree of compact nodes in place of one that was just parsed, and its nodes, outer ones first."""
    if tree.body:
        last = tree.body[-1].end_lineno or 0
        _NUMBERS.extend(range(len(_NUMBERS), last + 1))
    copied, fields = _COPIED, FIELDS
    root = _other(tree, None)
    nodes: list[Any] = [root]
    add = nodes.append
    # One loop for every node of every module, which also finds parents.
    for node in nodes:
        for field in fields[type(node)]:
            value = getattr(node, field)
            if value is None:
                continue
            if type(value) is list:
                if not value:
                    setattr(node, field, _EMPTY)
                    continue
                for index, part in enumerate(value):
                    if part is not None:
                        made = value[index] = copied.get(type(part), _other)(part, node)
                        add(made)
            else:
                made = copied.get(type(value), _other)(value, node)
                setattr(node, field, made)
                add(made)
    return root, nodes


def _other(node: Any, parent: Any) -> Any:
    made = _new(KINDS[type(node)])
    for name, value in node.__dict__.items():
        setattr(made, name, value)
    if (line := getattr(node, "end_lineno", None)) is not None:
        made.lineno, made.end_lineno = _NUMBERS[node.lineno], _NUMBERS[line]
    made.parent = parent
    return made


# Most nodes are of eight kinds, and one assignment for each field takes half of the time of a loop over them.


def _name(node: Any, parent: Any) -> Any:
    held, made, numbers = node.__dict__, _new(Name), _NUMBERS
    name, line, column = held["id"], held["lineno"], held["col_offset"]
    made.id, made.ctx, made.parent = name, held["ctx"], parent
    made.lineno, made.col_offset = numbers[line], column
    if held["end_col_offset"] != column + len(name) or held["end_lineno"] != line:
        made.end_lineno, made.end_col_offset = held["end_lineno"], held["end_col_offset"]
    return made


def _attribute(node: Any, parent: Any) -> Any:
    held, made, numbers = node.__dict__, _new(Attribute), _NUMBERS
    made.value, made.attr, made.ctx, made.parent = held["value"], held["attr"], held["ctx"], parent
    made.lineno, made.end_lineno = numbers[held["lineno"]], numbers[held["end_lineno"]]
    made.col_offset, made.end_col_offset = held["col_offset"], held["end_col_offset"]
    return made


def _constant(node: Any, parent: Any) -> Any:
    held, made, numbers = node.__dict__, _new(Constant), _NUMBERS
    made.value, made.parent = held["value"], parent
    if held["kind"] is not None:
        made.kind = held["kind"]
    made.lineno, made.end_lineno = numbers[held["lineno"]], numbers[held["end_lineno"]]
    made.col_offset, made.end_col_offset = held["col_offset"], held["end_col_offset"]
    return made


def _call(node: Any, parent: Any) -> Any:
    held, made, numbers = node.__dict__, _new(Call), _NUMBERS
    made.func, made.args, made.keywords, made.parent = held["func"], held["args"], held["keywords"], parent
    made.lineno, made.end_lineno = numbers[held["lineno"]], numbers[held["end_lineno"]]
    made.col_offset, made.end_col_offset = held["col_offset"], held["end_col_offset"]
    return made


def _argument(node: Any, parent: Any) -> Any:
    held, made, numbers = node.__dict__, _new(_keyword), _NUMBERS
    made.arg, made.value, made.parent = held["arg"], held["value"], parent
    made.lineno, made.end_lineno = numbers[held["lineno"]], numbers[held["end_lineno"]]
    made.col_offset, made.end_col_offset = held["col_offset"], held["end_col_offset"]
    return made


def _subscript(node: Any, parent: Any) -> Any:
    held, made, numbers = node.__dict__, _new(_Subscript), _NUMBERS
    made.value, made.slice, made.ctx, made.parent = held["value"], held["slice"], held["ctx"], parent
    made.lineno, made.end_lineno = numbers[held["lineno"]], numbers[held["end_lineno"]]
    made.col_offset, made.end_col_offset = held["col_offset"], held["end_col_offset"]
    return made


def _assign(node: Any, parent: Any) -> Any:
    held, made, numbers = node.__dict__, _new(_Assign), _NUMBERS
    made.targets, made.value, made.type_comment, made.parent = held["targets"], held["value"], None, parent
    made.lineno, made.end_lineno = numbers[held["lineno"]], numbers[held["end_lineno"]]
    made.col_offset, made.end_col_offset = held["col_offset"], held["end_col_offset"]
    return made


def _parameter(node: Any, parent: Any) -> Any:
    held, made, numbers = node.__dict__, _new(_arg), _NUMBERS
    made.arg, made.annotation, made.type_comment, made.parent = held["arg"], held["annotation"], None, parent
    made.lineno, made.end_lineno = numbers[held["lineno"]], numbers[held["end_lineno"]]
    made.col_offset, made.end_col_offset = held["col_offset"], held["end_col_offset"]
    return made


_COPIED = {
    ast.Name: _name, ast.Attribute: _attribute, ast.Constant: _constant, ast.Call: _call, ast.keyword: _argument,
    ast.Subscript: _subscript, ast.Assign: _assign, ast.arg: _parameter,
}  # fmt: skip


class Parents:
    """The parents of nodes, as a dictionary has them."""

    @overload
    def get(self, node: ast.AST) -> ast.AST | None: ...

    @overload
    def get(self, node: ast.AST, default: D) -> ast.AST | D: ...

    def get(self, node: ast.AST, default: Any = None) -> Any:
        """The parent of a node; ``default`` for the root, and for what is in no tree."""
        found = getattr(node, "parent", None)
        return default if found is None else found

    def __getitem__(self, node: Any) -> ast.AST:
        found = getattr(node, "parent", None)
        if found is None:
            raise KeyError(node)
        return found  # type: ignore[no-any-return]

    def __setitem__(self, node: Any, parent: ast.AST) -> None:
        node.parent = parent

    def __contains__(self, node: object) -> bool:
        return getattr(node, "parent", None) is not None
