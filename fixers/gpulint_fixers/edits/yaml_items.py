"""Insertions into YAML files that leave the rest as it is written, and values of nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from gpulint import regex
from gpulint.documents import Document
from gpulint.documents.yamltree import Node
from gpulint.fix import Edit
from gpulint.source import SourceText, Span

_MAX_DEPTH = 60
_MAX_NODES = 10_000
"""Aliases of aliases may stand for more than fits into memory."""
_SHORT = 60
_AT_KEY = regex.compile(r"^( *)[\w.-]+:\n\1- ", re.MULTILINE)
"""A list whose dashes are below the first letter of its key."""


class NotPlainError(ValueError):
    """A node with tags, or that contains itself."""


def plain(node: Node) -> Any:
    """Return a node as maps, lists and scalars, with aliases and merge keys in full.

    Raises:
        NotPlainError: its value is not known.
    """
    return _plain(node, 0, iter(range(_MAX_NODES)))


def named(value: object) -> list[dict[str, Any]]:
    """The maps of a list whose names, if any, are words; nothing of anything else."""
    items = [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    return [one for one in items if isinstance(one.get("name", ""), str)]


def _plain(node: Node, depth: int, left: Iterator[int]) -> Any:
    if depth > _MAX_DEPTH or next(left, None) is None:
        raise NotPlainError
    if node.kind == "list":
        return [_plain(child, depth + 1, left) for child in node.children]
    if node.kind == "map":
        if any(key.startswith("\0") for key in node.fields):
            raise NotPlainError
        return {key: _plain(value, depth + 1, left) for key, (_, value) in node.fields.items()}
    if node.tag is not None and not (node.style and node.tag == "!"):
        raise NotPlainError
    if node.style:
        return node.value
    try:
        return yaml.safe_load(node.value)
    except yaml.YAMLError as error:
        raise NotPlainError from error


def before_item(document: Document, item: Node, content: list[Any]) -> Edit | None:
    """Insert the items of ``content`` before an item of a block list, and above the comments of that item."""
    source = document.source
    head = _head(source, item)
    if head is None:
        return None
    line, indent = head
    rows = dumped(content, indented=_AT_KEY.search(source.text) is None).splitlines()
    text = "".join(f"{indent}{row}\n" if row else "\n" for row in rows)
    gap = "" if source.line(line - 1).strip() or line == 1 else "\n"
    return Edit(document.path, Span(line, 1, line, 1), text + gap)


def without_items(document: Document, items: list[Node], following: Node) -> Edit | None:
    """Remove the first items of a block list, up to the one that follows them."""
    source = document.source
    first, last = (_head(source, item) for item in (items[0], following))
    if first is None or last is None or any(_dash(source, item) is None for item in items):
        return None
    return Edit(document.path, Span(first[0], 1, last[0], 1), "")


def after_item(document: Document, item: Node, content: list[Any]) -> Edit | None:
    """Insert the items of ``content`` after the last item of a block list."""
    source = document.source
    dash = _dash(source, item)
    if dash is None:
        return None
    rows = dumped(content, indented=_AT_KEY.search(source.text) is None).splitlines()
    return _below(document, item.span.end_line, "\n".join(f"{dash[1]}{row}" if row else "" for row in rows))


def before_pair(document: Document, fields: Node, key: str, content: dict[str, Any]) -> Edit | None:
    """Insert the pairs of ``content`` before a key of a block map, and above the comments of that key."""
    source, name = document.source, fields.pair(key)[0]
    line, column = source.position(name.start)
    indent = source.line(line)[: column - 1]
    if not is_inside(name, fields) or indent.strip():
        return None
    while _is_comment(source.line(line - 1), indent):
        line -= 1
    rows = dumped(content, indented=_AT_KEY.search(source.text) is None).splitlines()
    return Edit(document.path, Span(line, 1, line, 1), "".join(f"{indent}{row}\n" if row else "\n" for row in rows))


def with_value(document: Document, fields: Node, key: str, value: str) -> Edit | None:
    """Write another value for a key of a map, in one line."""
    name, old = fields.pair(key)
    if not is_inside(name, fields) or not is_inside(old, fields) or old.written[:1] in ("&", "!"):
        return None
    source = document.source
    start = source.text.find(":", name.end) + 1
    end = old.start + len(old.written.rstrip())
    return Edit(document.path, source.span(start, end), f" {value}") if 0 < start <= old.start else None


def with_lines(document: Document, block: Node, text: str) -> Edit | None:
    """Add lines at the end of a block of text (``|``)."""
    if block.style != "|" or not block.value.strip():
        return None
    source, span = document.source, block.span
    first = next((source.line(at) for at in range(span.line + 1, span.end_line + 1) if source.line(at).strip()), "")
    indent = first[: len(first) - len(first.lstrip(" "))]
    return _below(document, span.end_line, "\n".join(f"{indent}{row}" if row else "" for row in text.splitlines()))


def with_word(document: Document, words: Node, word: str) -> Edit | None:
    """Add a word to a list of words."""
    source = document.source
    if source.text[words.start] == "[":
        inner = words.written[1:-1].rstrip()
        at = words.start + 1 + len(inner)
        text = word if not inner or inner.endswith(",") else f", {word}"
        return Edit(document.path, source.span(at, at), f" {text}" if inner.endswith(",") else text)
    dash = _dash(source, words.children[-1]) if words.children and source.text[words.start] == "-" else None
    if dash is None:
        return None
    return _below(document, words.children[-1].span.end_line, f"{dash[1]}- {word}")


def with_pair(document: Document, fields: Node, after: str, pair: str) -> Edit | None:
    """Add ``key: value`` to a map, below the value of the key ``after``, which is on one line."""
    source = document.source
    if source.text[fields.start] == "{":
        inner = fields.written[:-1].rstrip()
        at = fields.start + len(inner)
        return Edit(document.path, source.span(at, at), f" {pair}" if inner.endswith(",") else f", {pair}")
    key, value = fields.pair(after)
    if not is_inside(key, fields) or key.span.line != value.span.end_line:
        return None
    return _below(document, key.span.line, " " * (key.span.column - 1) + pair)


def around_text(document: Document, scalar: Node, before: str, after: str) -> tuple[Edit, ...] | None:
    """Insert text at the start and the end of a scalar on one line, within its quotes."""
    if scalar.style in ("|", ">") or scalar.tag is not None or scalar.written[:1] in ("&", "!"):
        return None
    if scalar.span.line != scalar.span.end_line:
        return None
    quote = 1 if scalar.style else 0
    source, start = document.source, scalar.start + quote
    end = scalar.start + len(scalar.written.rstrip()) - quote
    edits = ((start, before), (end, after))
    return tuple(Edit(document.path, source.span(at, at), text) for at, text in edits if text)


def is_inside(node: Node, outer: Node) -> bool:
    """Return whether a node is written within another, and not where an alias or a merge key points to."""
    return outer.start <= node.start and node.end <= outer.end


def _dash(source: SourceText, item: Node) -> tuple[int, str] | None:
    """The line of the dash that an item of a block list follows, and what stands before it: nothing but blanks."""
    at = len(source.text[: item.start].rstrip(" \n")) - 1
    if at < 0 or source.text[at] != "-":
        return None
    line, column = source.position(at)
    indent = source.line(line)[: column - 1]
    return None if indent.strip() else (line, indent)


def _head(source: SourceText, item: Node) -> tuple[int, str] | None:
    """The first of the comment lines right above the dash of an item, or its own line, and what precedes the dash."""
    dash = _dash(source, item)
    if dash is None:
        return None
    line, indent = dash
    while _is_comment(source.line(line - 1), indent):
        line -= 1
    return line, indent


def _is_comment(line: str, indent: str) -> bool:
    return line.startswith(f"{indent}#")


def _below(document: Document, line: int, text: str) -> Edit:
    end = len(document.source.line(line)) + 1
    return Edit(document.path, Span(line, end, line, end), f"\n{text}")


class _Dumper(yaml.SafeDumper):
    """Writes strings of several lines as blocks, and lists of few words in one line."""

    indented = False

    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless and not self.indented)


class _IndentedDumper(_Dumper):
    indented = True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


def _words(dumper: yaml.SafeDumper, words: list[Any]) -> yaml.SequenceNode:
    is_short = all(isinstance(word, str | int) and "\n" not in str(word) for word in words)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", words, flow_style=is_short and len(str(words)) <= _SHORT)


for _dumper in (_Dumper, _IndentedDumper):
    _dumper.add_representer(str, _block)
    _dumper.add_representer(list, _words)


def dumped(content: object, *, indented: bool = False) -> str:
    """Content as YAML, with blocks for strings of several lines; ``indented``: lists stand deeper than their keys."""
    dumper = _IndentedDumper if indented else _Dumper
    return yaml.dump(content, Dumper=dumper, sort_keys=False, width=120, allow_unicode=True)
