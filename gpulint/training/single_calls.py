"""Calls that a program makes once, beside others of the same function in its loops."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpulint.workspace.module_index import LOOPS, NodeRef


def run_once_beside(calls: Sequence[NodeRef], others: Sequence[NodeRef]) -> bool:
    """Return whether a program makes each of some calls once (``validate(0)`` before the training), and one of the
    others in a loop."""
    return any(map(_is_repeated, others)) and all(map(_runs_once, calls))


def _is_repeated(site: NodeRef) -> bool:
    return any(isinstance(up, LOOPS) for up in site.module.syntax.ancestors(site.node))


def _runs_once(site: NodeRef) -> bool:
    caller = site.module.function(site.node)
    at_top = caller is None or (caller.name == "main" and caller in site.module.syntax.tree.body)
    return at_top and not _is_repeated(site) and isinstance(site.node, ast.Call)
