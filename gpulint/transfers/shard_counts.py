"""How many shards a data set reads that workers divide among each other, where one without a shard fails."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.placement.host_to_device import HostToDevice
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader
from gpulint.transfers.data_caches import DataCaches
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_BRACES = regex.compile(r"\{(\d{1,9})\.\.(\d{1,9})\}")
_SHARD = ".tar"
"""A part of the names of shards, which those of lists of shards lack."""
_APART = "::"
"""Stands between the addresses of several shards."""
_MOST = 100
"""Values that are looked at for what one was made from."""


def in_braces(text: str) -> int | None:
    """Return how many addresses one with ranges stands for (``{000000..000100}``); None if it has none."""
    ranges = _BRACES.findall(text)
    if not ranges:
        return None
    count = 1
    for first, last in ranges:
        count *= int(last) - int(first) + 1
    return max(count, 0)


def most_workers(project: Project, loader: Loader) -> int | None:
    """Return how many workers of a loader get a shard each; None if that is not known, or there is no such limit."""
    caches = project.fact(DataCaches)
    for source in project.fact(HostToDevice).sources(loader):
        for ref in made_from(project, source):
            row = caches.of(ref.module, ref.node) if isinstance(ref.node, ast.Call) else None
            if row is None or not row.divides or not isinstance(ref.node, ast.Call):
                continue
            if caches.is_drawn(ref.module, ref.node, row) or keyword_value(ref.node, row.divides) is not None:
                return None
            address = caches.source(ref.node, row)
            return _count(project, ref.module, address) if address is not None else None
    return None


def _count(project: Project, module: ModuleIndex, source: ast.expr) -> int | None:
    """Return the fewest shards that an address may stand for, if all its values are known."""
    known = project.fact(Constants).of(module, source)
    counts = list[int]()
    for value in known.constants:
        if not isinstance(value, str):
            return None
        parts = [part for part in value.split(_APART) if part]
        if not all(_SHARD in part and "{" not in _BRACES.sub("", part) for part in parts):
            return None
        counts.append(sum(1 if (found := in_braces(part)) is None else found for part in parts))
    return min(counts, default=None) if known.complete else None


def made_from(project: Project, ref: NodeRef, joins: tuple[str, ...] = ()) -> Iterator[NodeRef]:
    """Yield the values that one was made from by way of methods, of functions that join several, and of variables."""
    left, seen = [ref], set[ast.AST]()
    while left and len(seen) < _MOST:
        one = left.pop()
        if one.node in seen:
            continue
        seen.add(one.node)
        yield one
        match one.node:
            case ast.Call(func=function, args=parts, keywords=named) if last_name(function) in joins:
                left += [NodeRef(one.module, part) for part in (*parts, *(keyword.value for keyword in named))]
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                left += [NodeRef(one.module, part) for part in parts]
        if isinstance(one.node, ast.Call) and isinstance(one.node.func, ast.Attribute):
            left.append(NodeRef(one.module, one.node.func.value))
        left += project.fact(Resolver).points_to(one.module, one.node)
