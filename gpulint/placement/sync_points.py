"""Kinds of places where the host waits for the GPU."""

from __future__ import annotations

import ast
import enum

from gpulint.records import dataclass


class SyncKind(enum.Enum):
    """How the host is made to wait."""

    READ = "reads a value back"
    FORMAT = "formats a tensor on the GPU"
    TEST = "branches on a value that the GPU computes"
    SELECT = "picks elements by a mask"
    BARRIER = "waits for all queued work"


@dataclass(frozen=True, slots=True)
class SyncPoint:
    """One primitive. ``value`` is the tensor that is read, None for a plain barrier."""

    node: ast.expr
    kind: SyncKind
    value: ast.expr | None


def is_index_read(sync: SyncPoint) -> bool:
    """Return whether the host reads a number to index with: ``bank[target]``."""
    if sync.kind is not SyncKind.READ or not isinstance(sync.node, ast.Subscript):
        return False
    index = sync.node.slice
    return sync.value in (index.elts if isinstance(index, ast.Tuple) else [index])
