"""YAML (and JSON, its subset) as a tree of nodes with exact offsets, built from PyYAML's event stream.

PyYAML's composer recurses and its C version overflows the stack on deep nesting; events do not, and they are as fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from gpulint import regex
from gpulint.budget import Budget
from gpulint.documents.templates import hidden, shown, without_control
from gpulint.documents.yamlscalar import scalar_pieces
from gpulint.numerals import MAX_DIGITS
from gpulint.records import dataclass, field
from gpulint.source import Fragment, SourceText, Span

UNKNOWN = "unknown value"
"""Tag of a scalar of Python that could be anything; its text is a shell variable."""
OBJECT = "object "
"""What the tag of a function or class of Python begins with; its dotted name or ``./file.py:name`` follows."""

CALLED = "@call"
"""Key of a call's name among its arguments."""
ITEM = "@item"
"""Key of an index into what is unknown."""

_INTEGER = regex.compile(r"\s*[+-]?(\d+)\s*")
_MARKER = regex.compile(r"^---(?=\s|\Z)", re.MULTILINE)
_MAX_DEPTH = 500
"""Nesting beyond this is no configuration, and libyaml's time grows with the square of it."""
_DIRECTIVE = regex.compile(r"^%(YAML|TAG)\b", re.MULTILINE)


class YamlError(Exception):
    """Text that is no YAML; ``offset`` is where in the text that was parsed."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(slots=True, eq=False)
class Node:
    """One node. ``kind`` is ``map``, ``list``, ``scalar`` or ``missing``; a missing one answers with nothing.

    ``start`` and ``end`` are character offsets in ``origin``, the text that was parsed; an alias is its anchor's node.
    """

    origin: Fragment
    kind: str
    start: int = 0
    end: int = 0
    value: str = ""
    style: str = ""
    tag: str | None = None
    children: list[Node] = field(default_factory=list)
    """Elements of a list; keys and values in turn of a map."""
    _fields: dict[str, tuple[Node, Node]] | None = None
    _fragment: Fragment | None = None
    made: dict[tuple[object, ...], Any] | None = None
    """What readers made of the node, which its aliases share."""

    def __bool__(self) -> bool:
        return self.kind != "missing"

    @property
    def text(self) -> str:
        """Text of a scalar, "" of anything else (null included)."""
        return "" if self.is_null else self.value

    @property
    def is_null(self) -> bool:
        return self.kind == "scalar" and not self.style and self.value in {"", "~", "null", "Null", "NULL"}

    @property
    def is_unknown(self) -> bool:
        """Whether it is an expression of Python of which nothing is known."""
        return self.tag == UNKNOWN and self.value.startswith("${") and self.value.endswith("}")

    @property
    def is_result(self) -> bool:
        """Whether it is what a call of Python or an index gives, rather than a map that is written out."""
        return self.kind == "map" and not self.fields.keys().isdisjoint((CALLED, ITEM))

    @property
    def is_merge(self) -> bool:
        return self.kind == "scalar" and self.value == "<<" and not self.style

    @property
    def integer(self) -> int | None:
        """A scalar's whole number (quoted or not), None for anything else."""
        match = _INTEGER.fullmatch(self.value) if self.kind == "scalar" else None
        return int(self.value) if match and len(match[1]) <= MAX_DIGITS else None

    @property
    def elements(self) -> list[Node]:
        return self.children if self.kind == "list" else []

    @property
    def fields(self) -> dict[str, tuple[Node, Node]]:
        """A map's keys and values by key, merge keys (``<<``) followed; of duplicates the last counts, as in PyYAML."""
        return self.merged(Budget()) if self._fields is None else self._fields

    def merged(self, budget: Budget) -> dict[str, tuple[Node, Node]]:
        """``fields`` as they are made, without the merge keys that ``budget`` has no room for."""
        if self._fields is None:
            self._fields = {}
            own = list(zip(self.children[::2], self.children[1::2], strict=True)) if self.kind == "map" else []
            for key, value in own:
                if key.is_merge:
                    for base in reversed(value.elements or [value]):
                        if budget.spend(len(base.fields)):
                            self._fields.update(base.fields)
            for index, (key, value) in enumerate(own):
                if key.kind != "scalar":
                    self._fields[f"\0{index}"] = key, value
                elif key.value != "<<" or key.style:
                    self._fields[key.value] = key, value
        return self._fields

    def pairs(self) -> Iterable[tuple[Node, Node]]:
        """Keys and values of a map, in order."""
        return self.fields.values()

    def pair(self, key: str) -> tuple[Node, Node]:
        """The key's node and value; both missing if the map lacks it."""
        return self.fields.get(key, (MISSING, MISSING)) if self.kind == "map" else (MISSING, MISSING)

    def at(self, *path: str) -> Node:
        """The value under nested keys, missing as soon as one is."""
        node = self
        for key in path:
            node = node.pair(key)[1]
        return node

    @property
    def written(self) -> str:
        """The node as it stands in the text."""
        return self.origin.text[self.start : self.end]

    @property
    def span(self) -> Span:
        """Place of the node, without the blank rest that a block map, list or scalar may end with."""
        return self.origin.span(self.start, self.start + len(self.written.rstrip()))

    @property
    def fragment(self) -> Fragment:
        """A scalar's text with its way back to the file; for a map or list the text as written."""
        if self._fragment is None:
            if self.kind != "scalar":
                self._fragment = embed(self.written, ((0, self.start),), self.origin)
            else:
                pieces = scalar_pieces(self.written, self.value, self.style)
                places = tuple((here, there + self.start) for here, there in pieces)
                self._fragment = embed(self.value, places, self.origin)
        return self._fragment

    def walk(self) -> Iterator[Node]:
        """This node and all below it, each once even where aliases repeat or recur."""
        seen: set[int] = set()
        todo = [self]
        while todo:
            node = todo.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            yield node
            todo.extend(reversed(node.children))


MISSING = Node(Fragment("", SourceText("")), "missing")
"""What a map has under a key that it lacks."""


def embed(text: str, pieces: tuple[tuple[int, int], ...], outer: Fragment) -> Fragment:
    """The fragment of ``text`` whose ``pieces`` point into ``outer``, itself a fragment: points into outer's owner."""
    result: list[tuple[int, int]] = []
    for index, (here, there) in enumerate(pieces):
        end = pieces[index + 1][0] if index + 1 < len(pieces) else len(text)
        result.append((here, outer.owner_offset(there)))
        result += [(here + at - there, outer.owner_offset(at)) for at in outer.breaks(there, there + end - here)]
    return Fragment(text, outer.owner, tuple(result), outer.cell)


def split_documents(text: str) -> list[tuple[int, int]]:
    """(start, end) of each document of a stream. ``---`` at a line's start is nothing else, so errors stay apart."""
    if _DIRECTIVE.search(text):
        return [(0, len(text))]
    starts = [match.start() for match in _MARKER.finditer(text)]
    bounds = [0, *[start for start in starts if start], len(text)]
    return [(start, end) for start, end in pairwise(bounds) if text[start:end].strip()]


def parse(origin: Fragment, start: int = 0, end: int | None = None, budget: Budget | None = None) -> list[Node]:
    """Root nodes of the documents in ``origin.text[start:end]``.

    ``budget`` bounds the entries that merge keys copy.

    Raises:
        YamlError: the text is no YAML; the documents before the error are lost (split them first).
    """
    import yaml

    text = origin.text[start:end]
    base = start + text.startswith("\ufeff")
    try:
        loader: Any = (yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader)(text)
        try:
            return _build(loader, origin, base, Budget() if budget is None else budget)
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        place = error.position if error.encoding is None else _characters(text, error.position)
        raise YamlError(str(error.reason), base + place) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(error.problem or "not valid YAML", base + (mark.index if mark else 0)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlError(f"not valid YAML: {error}", base) from None


def parse_template(origin: Fragment) -> list[Node]:
    """Root nodes of a template of YAML whose expressions are taken for words.

    Raises:
        YamlError: it is none, whatever the expressions become.
    """
    plain = replace(origin, text=without_control(origin.text))
    roots = parse(replace(origin, text=hidden(plain.text)))
    for root in roots:
        for node in root.walk():
            node.origin, node.value = plain, shown(node.value)
    return roots


def _characters(text: str, byte_offset: int) -> int:
    return len(text.encode("utf-8", "surrogatepass")[:byte_offset].decode("utf-8", "ignore"))


def _build(loader: Any, origin: Fragment, base: int, budget: Budget) -> list[Node]:
    """Fold the events into trees without recursion."""
    import yaml

    roots: list[Node] = []
    stack: list[Node] = []
    anchors: dict[str, Node] = {}
    while (event := loader.get_event()) is not None:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            style = event.style or ""
            node = Node(
                origin,
                "scalar",
                base + event.start_mark.index,
                base + event.end_mark.index,
                event.value,
                style,
                event.tag,
            )
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            shape = "map" if kind is yaml.MappingStartEvent else "list"
            node = Node(origin, shape, base + event.start_mark.index, tag=event.tag)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            node = stack.pop()
            node.end = base + event.end_mark.index
            if any(key.is_merge for key in node.children[::2]):
                node.merged(budget)
            continue
        elif kind is yaml.AliasEvent:
            if event.anchor not in anchors:
                raise YamlError(f"undefined alias {event.anchor!r}", base + event.start_mark.index)
            node = anchors[event.anchor]
        elif kind is yaml.DocumentStartEvent:
            anchors.clear()
            continue
        else:
            continue
        (stack[-1].children if stack else roots).append(node)
        if kind is not yaml.AliasEvent:
            if event.anchor is not None:
                anchors[event.anchor] = node
            if node.kind != "scalar":
                if len(stack) >= _MAX_DEPTH:
                    raise YamlError("nested too deeply", node.start)
                stack.append(node)
    return roots
