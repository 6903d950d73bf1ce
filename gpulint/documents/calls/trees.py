"""Python expressions as trees of nodes, as YAML is one: a call's arguments are a map, literals are what they hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.budget import Budget
from gpulint.documents.calls import strings
from gpulint.documents.calls.options import Options
from gpulint.documents.yamltree import CALLED, ITEM, OBJECT, UNKNOWN, Node
from gpulint.source import Fragment

if TYPE_CHECKING:
    from gpulint.documents.calls.names import Names
    from gpulint.documents.calls.origins import Origins

FUNCTION = "@function"
"""Key of the function or class that a decorator is on."""
MAX_NODES = 20_000
"""Nodes of all calls of one file, at most."""
MAX_VALUES = 10
"""Values that ``**options`` may have; more of them are not followed."""
_MAX_DEPTH = 30
_CONVERSIONS = frozenset({"str", "int", "float", "Path", "dedent", "strip", "abspath", "tuple", "list"})
"""Calls whose result reads as their argument does."""
_READS_ENVIRONMENT = frozenset({"os.environ.get", "os.getenv"})
"""Calls that give their second argument where a variable is not set."""


class Trees:
    """Builds the trees of one file."""

    def __init__(self, names: Names, origins: Origins) -> None:
        self.names, self.origins, self.options = names, origins, Options(names)
        self.budget = Budget(MAX_NODES)

    def call(self, call: ast.Call, signature: tuple[str, ...] = ()) -> Node | None:
        """A call's arguments by name, or by number where the signature gives none; None if some are unknown."""
        pairs = [self._scalar(call.func, self.names.qualified(call.func) or "?", key=CALLED)]
        for number, argument in enumerate(call.args):
            if isinstance(argument, ast.Starred):
                return None
            key = signature[number] if number < len(signature) else str(number)
            pairs.append((self._text(argument, key), self.node(argument)))
        for keyword in call.keywords:
            if keyword.arg is not None:
                pairs.append((self._key(keyword), self.node(keyword.value)))
                continue
            more = self._unpacked(keyword.value)
            if more is None:
                return None
            pairs += more
        return self._map(call, pairs)

    def _unpacked(self, expr: ast.expr) -> list[tuple[Node, Node]] | None:
        """The entries of ``**options``; what only some of its values have, or with another value, is unknown."""
        is_open = isinstance(expr, ast.Name) and self.names.meaning(expr) is None
        values = self.names.alternatives(expr)[:MAX_VALUES] if is_open and isinstance(expr, ast.Name) else []
        if len(values) == MAX_VALUES:
            return None
        nodes = [self.node(value) for value in values] or [self.node(expr)]
        if any(node.kind != "map" or node.is_result for node in nodes) or (
            len(nodes) > 1 and isinstance(expr, ast.Name) and self.names.is_changed(expr.id)
        ):
            return None
        found: dict[str, tuple[Node, Node]] = {}
        for node in nodes:
            for key, value in node.pairs():
                same = [other.at(key.value) for other in nodes]
                is_same = all(one.kind == "scalar" and one.value == value.value for one in same)
                found[key.value] = (key, value if len(nodes) == 1 or is_same else self._unknown(expr))
        return list(found.values())

    def node(self, expr: ast.expr, depth: int = 0) -> Node:
        """The tree of an expression; a scalar with the tag ``UNKNOWN`` where it could be anything."""
        if depth > _MAX_DEPTH or not self.budget.spend(1):
            return self._unknown(expr)
        match expr:
            case ast.Constant() | ast.JoinedStr():
                return self._literal(expr)
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                return self._list(expr, elements, depth)
            case ast.Dict():
                return self._dict(expr, depth)
            case ast.Name() | ast.Attribute():
                return self._named(expr, depth)
            case ast.Call():
                return self._called(expr, depth)
            case ast.BinOp():
                return self._combined(expr, depth)
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(key))):
                return self._item(expr, owner, key, depth)
            case ast.Await(value=inner) | ast.NamedExpr(value=inner):
                return self.node(inner, depth + 1)
        return self._unknown(expr)

    def reference(
        self, call: ast.Call, key: str, definition: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ) -> list[Node]:
        """Key and value for a definition that a decorator is on."""
        tag = f"{OBJECT}./{self.names.module.path.name}:{definition.name}"
        return [self._text(call, key), self._text(call, definition.name, tag=tag)]

    def pair(self, call: ast.Call, key: str, children: list[Node]) -> list[Node]:
        """Key and value for what a method is told."""
        return [self._text(call, key), self._made(call, "map", children)]

    def text(self, expr: ast.expr) -> str | None:
        """The text or number that an expression is; None if it is neither, or unknown."""
        node = self.node(expr)
        return node.value if node.kind == "scalar" and node.tag is None and not node.is_null else None

    def _literal(self, expr: ast.Constant | ast.JoinedStr) -> Node:
        if isinstance(expr, ast.Constant) and not isinstance(expr.value, str):
            value = expr.value
            written = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            return self._text(expr, written, style="")
        found = strings.fragment(self.origins, expr, self.text)
        holes = isinstance(expr, ast.JoinedStr) and any(
            self.text(part.value) is None for part in expr.values if isinstance(part, ast.FormattedValue)
        )
        return self._text(expr, found.text, found, tag=UNKNOWN if holes else None)

    def _list(self, expr: ast.expr, elements: list[ast.expr], depth: int) -> Node:
        found: list[Node] = []
        for element in elements:
            inner = element.value if isinstance(element, ast.Starred) else element
            node = self.node(inner, depth + 1)
            found += node.elements if isinstance(element, ast.Starred) and node.kind == "list" else [node]
        return self._made(expr, "list", found)

    def _dict(self, expr: ast.Dict, depth: int) -> Node:
        pairs: list[tuple[Node, Node]] = []
        for key, value in zip(expr.keys, expr.values, strict=True):
            node = self.node(value, depth + 1)
            if key is not None:
                pairs.append((self.node(key, depth + 1), node))
            elif node.kind == "map" and not node.is_result:
                pairs += node.pairs()
            else:
                return self._unknown(expr)
        return self._map(expr, pairs)

    def _named(self, expr: ast.Name | ast.Attribute, depth: int) -> Node:
        """The value of a name, placed where the name is used."""
        meaning = self.names.meaning(expr) if isinstance(expr, ast.Name) else None
        if isinstance(meaning, ast.expr):
            assert isinstance(expr, ast.Name)
            node = self.node(meaning, depth + 1)
            if node.kind in ("list", "map") and self.names.is_changed(expr.id):
                return self._unknown(expr)
            if node.kind == "map" and expr.id in self.names.added:
                node = self._map(expr, [*node.pairs(), *self._added(expr.id, depth)])
            return self._placed(node, expr)
        default = self.options.default(expr) if isinstance(expr, ast.Attribute) else None
        if default is not None:
            return self._placed(self.node(default, depth + 1), expr)
        name = self.names.qualified(expr)
        if name == "sys.executable":
            return self._text(expr, "python")
        return self._unknown(expr) if name is None or "()" in name else self._text(expr, name, tag=OBJECT + name)

    def _item(self, expr: ast.Subscript, owner: ast.expr, key: str, depth: int) -> Node:
        """``KINDS["large"]``: the entry of a dictionary, or a map with the key alone."""
        node = self.node(owner, depth + 1)
        found = node.at(key) if not node.is_result else Node(node.origin, "missing")
        return self._placed(found, expr) if found else self._map(expr, [self._scalar(expr.slice, key, key=ITEM)])

    def _added(self, name: str, depth: int) -> Iterator[tuple[Node, Node]]:
        """Entries that are set in a dictionary after it was made."""
        for key, (place, value) in self.names.added[name].items():
            yield self._text(place, key), self._unknown(place) if value is None else self.node(value, depth + 1)

    def _called(self, expr: ast.Call, depth: int) -> Node:
        name = expr.func.attr if isinstance(expr.func, ast.Attribute) else getattr(expr.func, "id", "")
        owner = expr.func.value if isinstance(expr.func, ast.Attribute) else None
        if name == "partial" and expr.args:
            return self.node(expr.args[0], depth + 1)
        if name in _CONVERSIONS and not expr.keywords and len(expr.args) <= 1 and (expr.args or owner is not None):
            inner = expr.args[0] if expr.args else owner
            assert inner is not None
            node = self.node(inner, depth + 1)
            return node if node.kind != "map" else self._unknown(expr)
        if name == "join" and owner is not None and expr.args:
            return self._joined(expr, owner, depth)
        if self.names.qualified(expr.func) in _READS_ENVIRONMENT and len(expr.args) == 2:
            return self._placed(self.node(expr.args[1], depth + 1), expr)
        if name == "dict" and not expr.args:
            made = self.call(expr)
            return self._unknown(expr) if made is None else self._map(expr, list(made.pairs())[1:])
        return self.call(expr) or self._unknown(expr)

    def _joined(self, expr: ast.Call, owner: ast.expr, depth: int) -> Node:
        """``os.path.join("src", "train.py")`` and ``" ".join([...])``."""
        if self.names.qualified(owner) == "os.path":
            return self._concatenated(expr, [self.node(part, depth + 1) for part in expr.args], "/")
        separator, parts = self.text(owner), self.node(expr.args[0], depth + 1)
        if separator is None or parts.kind != "list":
            return self._unknown(expr)
        return self._concatenated(expr, parts.elements, separator)

    def _combined(self, expr: ast.BinOp, depth: int) -> Node:
        left, right = self.node(expr.left, depth + 1), self.node(expr.right, depth + 1)
        if isinstance(expr.op, ast.Add) and left.kind == right.kind == "list":
            return self._made(expr, "list", [*left.elements, *right.elements])
        if isinstance(expr.op, ast.Add) and (left.style or right.style):
            return self._concatenated(expr, [left, right], "")
        if isinstance(expr.op, ast.Mult) and left.integer is not None and right.integer is not None:
            return self._text(expr, str(left.integer * right.integer), style="")
        if isinstance(expr.op, ast.Div) and left.style and right.style:  # of paths
            return self._concatenated(expr, [left, right], "/")
        return self._unknown(expr)

    def _concatenated(self, expr: ast.expr, parts: list[Node], separator: str) -> Node:
        if not parts or any(part.kind != "scalar" or part.is_null for part in parts):
            return self._unknown(expr)
        whole = joined([part.fragment for part in parts], separator)
        is_known = all(part.tag is None for part in parts)
        return self._text(expr, whole.text, whole, tag=None if is_known else UNKNOWN)

    def _map(self, expr: ast.expr, pairs: list[tuple[Node, Node]]) -> Node:
        return self._made(expr, "map", [node for pair in pairs for node in pair])

    def _made(self, expr: ast.expr, kind: str, children: list[Node]) -> Node:
        return Node(*self._places(expr, kind), children=children)

    def _placed(self, node: Node, expr: ast.expr) -> Node:
        """A value that a name stands for; its text keeps its own place."""
        whole = node.fragment if node.kind == "scalar" else None
        made = Node(*self._places(expr, node.kind), node.value, node.style, node.tag, node.children)
        made._fragment = whole
        return made

    def _unknown(self, expr: ast.expr) -> Node:
        return self._text(expr, strings.unknown(expr), tag=UNKNOWN)

    def _scalar(self, expr: ast.expr, text: str, key: str) -> tuple[Node, Node]:
        return self._text(expr, key), self._text(expr, text)

    def _key(self, keyword: ast.keyword) -> Node:
        origin, start, _ = self.origins.at(keyword)
        name = keyword.arg or ""
        return Node(origin, "scalar", start, start + len(name), name, '"')

    def _text(
        self, expr: ast.expr, text: str, whole: Fragment | None = None, *, style: str = '"', tag: str | None = None
    ) -> Node:
        """A scalar; what replaces an expression begins where the expression does."""
        origin, start, end = self.origins.at(expr)
        node = Node(origin, "scalar", start, end, text, style, tag)
        node._fragment = whole or Fragment(text, origin.owner, ((0, origin.owner_offset(start)),), origin.cell)
        return node

    def _places(self, expr: ast.expr, kind: str) -> tuple[Fragment, str, int, int]:
        origin, start, end = self.origins.at(expr)
        return origin, kind, start, end


def joined(parts: list[Fragment], separator: str) -> Fragment:
    """Texts as one; what is in another cell than the first has the place of the first."""
    places: list[tuple[int, int]] = []
    at = 0
    first = parts[0]
    for part in parts:
        if part.owner is first.owner and part.cell == first.cell:
            places += [(at + here, there) for here, there in part.pieces]
        elif part.text:
            places.append((at, first.pieces[0][1]))
        at += len(part.text) + len(separator)
    return Fragment(separator.join(part.text for part in parts), first.owner, tuple(places), first.cell)
