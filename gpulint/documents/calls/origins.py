"""The texts that a module's nodes are in: the file, or the cells of a notebook."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpulint.source import Fragment

if TYPE_CHECKING:
    from gpulint.documents.python import PythonModule


class Origins:
    """Finds the text of a node, and its place there."""

    def __init__(self, module: PythonModule, parts: Sequence[tuple[int, Fragment]]) -> None:
        """``parts``: where each text begins in the module's, in order."""
        self._module = module
        self._starts = [start for start, _ in parts]
        self._texts = [text for _, text in parts]

    def at(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[Fragment, int, int]:
        """The text, and the offsets in it at which the node begins and ends."""
        start, end = self._module.offsets(node)
        number = max(bisect_right(self._starts, start) - 1, 0)
        shift = self._starts[number]
        return self._texts[number], start - shift, end - shift
