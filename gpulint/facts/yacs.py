"""Defaults of configurations that are built with yacs (``_C.TRAIN.SYNC = False``), as fvcore and detectron2 do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.facts.scopes import dotted

if TYPE_CHECKING:
    from gpulint.project import Project

_ROOTS = ("_C", "__C", "cfg", "_cfg")
"""What the module of the defaults calls the root."""


def defaults(project: Project, node: ast.expr) -> Iterator[object]:
    """The constants that ``cfg.TRAIN.SYNC`` has by default; what else may stand in front of the keys does not count."""
    names = dotted(node).split(".")
    keys = [name for name in names[1:] if name.isupper()]
    if not keys or not names[-1].isupper():
        return
    for path in project.words.mentioning(keys[-1].encode()):
        scopes = project.scopes_at(path)
        if scopes is None or not any(binding.target.endswith(".CfgNode") for binding in scopes.imports):
            continue
        for base in keys[-2:-1] or _ROOTS:
            for target, value, _ in scopes.stores.get(base, []):
                if isinstance(value, ast.Constant) and dotted(target).split(".")[1:] == keys:
                    yield value.value
