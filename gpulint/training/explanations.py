"""Backward passes for what they tell of a model: class activation maps, saliency, the importance of weights."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import FunctionNode, ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

_UPDATES = regex.compile(
    rb"optim|\nopt(_|\n)|_opt\n|\n(_?train_|_?update_)?step\n|scaler|engine|minimize|apply_grad|train_on_batch|tape"
    rb"|value_and_grad|train_?op",
    re.IGNORECASE,
)
"""Identifiers of what updates weights."""
_EXPLAINS = regex.compile(
    rb"saliency|attribution|activation_?map|heat_?map|\n\w*_?cam(_\w*)?\n|grad_?cam|\nexplain|integrated_?gradients?"
    rb"|deep_?dream|\n(\w+_)?fisher(_\w+)?\n|\ninfluence_",
    re.IGNORECASE,
)


def updates_weights(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module names anything that updates weights."""
    return project.word_index.finds(module.path, _UPDATES)


@query
def explains(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module computes gradients to show what a model looks at, and updates no weights."""
    return project.word_index.finds(module.path, _EXPLAINS) and not updates_weights(project, module)


def only_explains(project: Project, module: ModuleIndex, backward: ast.Call) -> bool:
    """Return whether ``score.backward()`` is in such a module, or in a function whose name or class says the same and
    which updates no weights itself."""
    if explains(project, module):
        return True
    function = module.function(backward)
    return function is not None and _is_explanation(module, function)


@query
def _is_explanation(module: ModuleIndex, function: FunctionNode) -> bool:
    owner = module.class_of(function)
    homes = [function.name, *([owner.name] if owner is not None else [])]
    if not _EXPLAINS.search(_lines(homes)):
        return False
    parts = walk(function)
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    names += [part.attr for part in parts if isinstance(part, ast.Attribute)]
    names += [part.arg for part in parts if isinstance(part, ast.arg)]
    return not _UPDATES.search(_lines([*homes, *names]))


def _lines(names: list[str]) -> bytes:
    """Names as a word index gives those of a file: each on a line of its own."""
    return "\n".join(["", *names, ""]).encode()
