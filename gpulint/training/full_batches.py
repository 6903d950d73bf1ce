"""Loops over epochs that take one step in each, on all data: what happens once per step there happens seldom."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.training.loop_iterables import is_loader_name, unwrap_iterable
from gpulint.values.counter_names import counts_epochs
from gpulint.workspace.module_index import last_name


def is_full_batch(loop: ast.AST) -> bool:
    """Return whether a loop that takes training steps counts epochs."""
    if not isinstance(loop, ast.For) or is_loader_name(last_name(unwrap_iterable(loop.iter))):
        return False
    return _counts_epochs(loop.iter) or any(
        isinstance(name, ast.Name) and counts_epochs(name.id) for name in walk(loop.target)
    )


def _counts_epochs(source: ast.expr) -> bool:
    """``for _ in trange(args.epochs)``."""
    while isinstance(source, ast.Call) and last_name(source.func) in ("range", "trange", "tqdm") and source.args:
        source = source.args[-1 if len(source.args) == 2 else 0]
    return isinstance(source, ast.Name | ast.Attribute) and counts_epochs(last_name(source))
