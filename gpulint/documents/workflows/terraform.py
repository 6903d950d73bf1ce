"""Terraform: resources as maps, which the rows of job formats read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.specs import formats
from gpulint.documents.yamltree import Node
from gpulint.source import Fragment, SourceText

if TYPE_CHECKING:
    from gpulint.documents.tasks import Task
    from gpulint.libraries import Models

_TOKEN = regex.compile(
    r"""(?P<skip>\s+|\#[^\n]*|//[^\n]*|/\*(?:.*?\*/|.*)|,)"""
    r"""|<<[-~]?(?P<mark>\w+)[ \t]*\r?\n(?P<heredoc>.*?)(?:^[ \t]*(?P=mark)[ \t]*$|\Z)"""
    r"""|"(?P<string>(?:\\.|\$\{[^}\n]{0,200}\}|\$(?!\{)|[^"\\\n$])*)\""""
    r"""|(?P<number>\d+(?:\.\d+)?)\b"""
    r"""|(?P<call>[A-Za-z_][\w-]*)\((?=[\s\n]*[\[{])"""
    r"""|(?P<word>[A-Za-z_][\w.-]*(?:\[[^\]\n]{0,100}\][\w.]*)*)"""
    r"""|(?P<mark_>[{}\[\]=:()]|.)""",
    re.DOTALL | re.MULTILINE,
)
MAX_DEPTH = 60
"""Nesting beyond this is no configuration."""


class _Bound(Exception):
    """More than is read."""


def read(source: SourceText, models: Models) -> list[Task]:
    """Tasks of the resources of a Terraform file."""
    rows = [row for row in models.rows("format") if row.terraform]
    try:
        root = _Reader(source).body(0, is_root=True)
    except _Bound:
        return []
    return [task for resource in _resources(root) for row in rows for task in formats.read(row, resource)]


def _resources(root: Node) -> list[Node]:
    return [value for key, value in root.pairs() if key.value.startswith("resource ")]


class _Reader:
    """Builds nodes from tokens: blocks and objects are maps, tuples lists, all else scalars."""

    def __init__(self, source: SourceText) -> None:
        self.origin = Fragment(source.text, source)
        self.tokens = [match for match in _TOKEN.finditer(source.text) if match["skip"] is None]
        self.at = 0

    def body(self, depth: int, *, is_root: bool = False) -> Node:
        """Attributes and blocks up to the closing brace; several blocks of a name are a list."""
        if depth > MAX_DEPTH:
            raise _Bound
        start = self.tokens[self.at].start() if self.at < len(self.tokens) else 0
        children: list[Node] = []
        end = start
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            self.at += 1
            end = token.end()
            if token[0] == "}":
                break
            if token["word"] is None and token["string"] is None:
                continue
            key = self.scalar(token)
            labels = [key.value]
            while self.at < len(self.tokens) and self.tokens[self.at]["string"] is not None:
                labels.append(self.tokens[self.at]["string"])
                self.at += 1
            if self.at >= len(self.tokens):
                break
            following = self.tokens[self.at][0]
            if following in ("=", ":"):
                self.at += 1
                children += [key, self.value(depth)]
            elif following == "{":
                self.at += 1
                key.value = " ".join(labels)
                children += [key, self.body(depth + 1)]
        return Node(self.origin, "map", start, end, children=children)

    def value(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise _Bound
        if self.at >= len(self.tokens):
            return Node(self.origin, "scalar")
        token = self.tokens[self.at]
        self.at += 1
        if token["call"] is not None:  # jsonencode({...})
            inner = self.value(depth + 1)
            self.at += self.at < len(self.tokens) and self.tokens[self.at][0] == ")"
            return inner
        if token[0] == "{":
            return self.body(depth + 1)
        if token[0] == "[":
            items, end = [], token.end()
            while self.at < len(self.tokens):
                if self.tokens[self.at][0] == "]":
                    end = self.tokens[self.at].end()
                    self.at += 1
                    break
                items.append(self.value(depth + 1))
            return Node(self.origin, "list", token.start(), end, children=items)
        return self.scalar(token)

    def scalar(self, token: re.Match[str]) -> Node:
        for group, style in (("heredoc", "|"), ("string", '"')):
            if token[group] is not None:
                start, end = token.span(group)
                node = Node(self.origin, "scalar", start, end, value=token[group], style=style)
                node._fragment = self.origin.cut(start, end)
                return node
        return Node(self.origin, "scalar", token.start(), token.end(), value=token[0])
