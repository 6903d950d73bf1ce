"""Loops that are known to have many rounds, which are the steps or epochs of a training."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_iterables import is_loader_name, unwrap_iterable
from gpulint.values.constants import Constants
from gpulint.values.counter_names import counts_epochs, counts_steps_of_epoch
from gpulint.workspace.module_index import LoopNode, ModuleIndex, last_name

_BATCHES = regex.compile(r"batches$", re.IGNORECASE)
_MANY = 100
"""Rounds from which on graphs whose buffers ``backward`` has freed count."""


def has_many_rounds(project: Project, module: ModuleIndex, loop: LoopNode) -> bool:
    """Return whether the rounds of a loop are known to be the steps of a training: they draw from its data, are counted
    in the hundreds, or are those of an epoch. The rounds of other loops may be parts of one step."""
    around = (up for up in project.fact(LoopContexts).around(module, loop) if up is not loop)
    return (
        is_over_data(project, module, loop)
        or counts_epochs_of(loop)
        or _counts_hundreds(project, module, loop)
        or any(map(counts_epochs_of, around))
    )


def is_over_data(project: Project, module: ModuleIndex, loop: LoopNode) -> bool:
    """Return whether the loop is known to draw batches of the training's data until it ends."""
    if counts_steps_of(loop):
        return True
    if project.fact(LoopContexts).over_loader(module, loop):
        return not _is_given_batches(module, loop)
    return isinstance(loop, ast.For) and any(
        isinstance(part, ast.Call) and last_name(part.func) == "len" and any(map(is_loader_name, _names(part)))
        for part in walk(loop.iter)
    )


def _is_given_batches(module: ModuleIndex, loop: LoopNode) -> bool:
    """Return whether a loop runs over batches that its function is given (``def update(self, minibatches)``), which may
    be those of one step: one of each domain, or parts of a batch."""
    function = module.function(loop)
    if function is None or not isinstance(loop, ast.For):
        return False
    source = unwrap_iterable(loop.iter)
    given = {argument.arg for argument in walk(function.args) if isinstance(argument, ast.arg)}
    return isinstance(source, ast.Name) and source.id in given and bool(_BATCHES.search(source.id))


def _counts_hundreds(project: Project, module: ModuleIndex, loop: LoopNode) -> bool:
    """``for step in range(10_000)``"""
    if not isinstance(loop, ast.For):
        return False
    source = unwrap_iterable(loop.iter)
    if not isinstance(source, ast.Call) or last_name(source.func) not in ("range", "trange") or len(source.args) != 1:
        return False
    known = project.fact(Constants).of(module, source.args[0])
    return known.every(lambda count: isinstance(count, int) and count >= _MANY)


def counts_epochs_of(loop: LoopNode) -> bool:
    """``for epoch in range(epochs)``"""
    return isinstance(loop, ast.For) and any(map(counts_epochs, _names(loop.target) | _names(loop.iter)))


def counts_steps_of(loop: LoopNode) -> bool:
    """``for _ in range(steps_per_epoch)``"""
    return isinstance(loop, ast.For) and any(map(counts_steps_of_epoch, _names(loop.iter)))


def _names(node: ast.expr) -> set[str]:
    return {last_name(part) for part in walk(node) if isinstance(part, ast.Name | ast.Attribute)}
