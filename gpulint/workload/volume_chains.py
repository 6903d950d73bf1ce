"""Chains of transforms for volumes of three dimensions, as MONAI, TorchIO and classes of the tree crop them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

SPATIAL = "spatial"
"""Transforms of volumes, which some other code has read."""
_CUTS = regex.compile(r"crop|resize|pad(?!ding)|sampler$", re.IGNORECASE)
"""Names of transforms that are told the sizes of what they return."""
_SPACING = frozenset({"Spacing", "Spacingd", "Orientation", "Orientationd", "ToCanonical"})
"""Transforms that only volumes have."""
_SIDES = 3
LEAST_SIDE = 8
"""Shorter sides are channels, kernels or padding."""


@query
def chain_works(project: Project, module: ModuleIndex, called: ast.expr) -> tuple[str, ...]:
    """Return what a called chain of transforms does for volumes: ``volume`` where its first step reads one
    (``Compose([LoadImaged("image"), ...])``), and ``SPATIAL`` where a step cuts out a part of three dimensions."""
    steps = [*_steps(project, module, called)]
    names = [last_name(call.func) for _, call in steps]
    found = ["volume"] if any(name.startswith("LoadImage") for name in names) else []
    if not _SPACING.isdisjoint(names) or any(_is_spatial(project, where, call) for where, call in steps):
        found.append(SPATIAL)
    return tuple(found)


def _steps(project: Project, module: ModuleIndex, called: ast.expr) -> Iterator[tuple[ModuleIndex, ast.Call]]:
    """The calls that make the steps of a chain."""
    for ref in project.fact(Resolver).points_to(module, called):
        if isinstance(ref.node, ast.Call) and last_name(ref.node.func) == "Compose":
            yield from ((ref.module, part) for part in walk(ref.node) if isinstance(part, ast.Call))


def _is_spatial(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """``RandSpatialCropd(keys, roi_size=(96, 96, 96))``, ``RandomCrop(size)`` for ``size = (112, 112, 80)``"""
    if _CUTS.search(last_name(call.func)) is None:
        return False
    return any(_has_three_sides(project, module, part) for part in (*call.args, *(one.value for one in call.keywords)))


def _has_three_sides(project: Project, module: ModuleIndex, given: ast.expr) -> bool:
    plain = isinstance(given, ast.List | ast.Tuple | ast.Name | ast.Attribute)
    return plain and any(
        isinstance(ref.node, ast.List | ast.Tuple)
        and len(ref.node.elts) == _SIDES
        and all(isinstance(side, ast.Constant) and _is_side(side.value) for side in ref.node.elts)
        for ref in project.fact(Resolver).points_to(module, given)
    )


def _is_side(value: object) -> bool:
    return isinstance(value, int) and value >= LEAST_SIDE
