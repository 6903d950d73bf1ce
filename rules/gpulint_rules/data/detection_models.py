"""Models of libraries that match predictions with targets, or pick proposals, for which the host waits in each step."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.libraries import Models
from gpulint.libraries.names import matches
from gpulint.libraries.operations import Sync
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, last_name

_MODEL = regex.compile(r"(^|_)(model|net|network|detector|detr|rcnn|module)$")
_TARGETS = frozenset({"targets", "labels", "mask_labels", "class_labels"})
_MOVES = frozenset({"to", "cuda"})


class _Detectors:
    """The rows of such models."""

    def __init__(self, models: Models) -> None:
        rows: tuple[Sync, ...] = models.rows("sync")
        self.names = tuple(name for row in rows if row.kind == "detect" for name in row.calls)


def matches_targets(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call runs such a model with targets: ``model(images, targets)`` with
    ``model = fasterrcnn_resnet50_fpn()``."""
    if not _MODEL.search(last_name(call.func)):
        return False
    if len(call.args) < 2 and not any(keyword.arg in _TARGETS for keyword in call.keywords):
        return False
    resolver, known = project.fact(Resolver), project.models.derived(_Detectors).names
    return any(
        isinstance(made := _unmoved(ref.node), ast.Call) and matches(known, resolver.call_names(ref.module, made))
        for ref in resolver.points_to(module, call.func)
        if not ref.path
    )


def _unmoved(node: ast.AST) -> ast.AST:
    """``fasterrcnn_resnet50_fpn()`` of ``fasterrcnn_resnet50_fpn().to(device)``."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _MOVES:
            return _unmoved(inner)
    return node
