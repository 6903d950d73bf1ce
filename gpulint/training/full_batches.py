"""Loops over epochs that take one step in each, on all data: what happens once per step there happens seldom."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.training.loop_iterables import is_loader_name, unwrap_iterable
from gpulint.values.counter_names import counts_epochs
from gpulint.workspace.module_index import last_name

_SHORT = 2
"""Most characters of the name of a loop's variable that is a mere number (``_``, ``i``, ``ep``)."""


def is_full_batch(loop: ast.AST) -> bool:
    """Return whether a loop that takes training steps counts epochs."""
    if not isinstance(loop, ast.For) or is_loader_name(last_name(unwrap_iterable(loop.iter))):
        return False
    return _counts_epochs(loop) or any(
        isinstance(name, ast.Name) and counts_epochs(name.id) for name in walk(loop.target)
    )


def _counts_epochs(loop: ast.For) -> bool:
    """``for _ in trange(args.epochs)``. ``for batch in epoch_bar`` takes the batches of an epoch, while ``for i in
    epoch_bar`` may count epochs."""
    source = loop.iter
    while isinstance(source, ast.Call) and last_name(source.func) in ("range", "trange", "tqdm") and source.args:
        source = source.args[-1 if len(source.args) == 2 else 0]
    if source is loop.iter and not (isinstance(loop.target, ast.Name) and len(loop.target.id) <= _SHORT):
        return isinstance(source, ast.Name | ast.Attribute) and last_name(source).lower().endswith(("epoch", "epochs"))
    return isinstance(source, ast.Name | ast.Attribute) and counts_epochs(last_name(source))
