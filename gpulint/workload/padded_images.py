"""Collate functions that pad the images of a batch to the largest of them, so that what a model computes of an image
depends on the others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_SHAPES = frozenset({"shape", "size"})
_LARGEST = regex.compile(r"(^|_)max(imum)?(_|$)|^amax$")
_FILLS = frozenset("zeros full ones empty new_zeros new_full new_ones new_empty new fill_ pad".split())
"""Calls that make the room for the largest image, or fill it up."""
_TELLS = regex.compile(
    r"attention|pixel_mask|pad(ding)?_mask|mask_pad|nested|NestedTensor|(^|_)(lengths?|lens)$|(^|_)ids?$"
)
"""Names of what tells a model which parts are padding, and of tokens."""
MAX_CALLS = 3
"""Most calls through which a function that pads is looked for."""


def pads_images(project: Project, module: ModuleIndex, loader: ast.Call) -> bool:
    """Return whether a loader's collate function pads to the largest shape of a batch, and tells nobody where."""
    given = keyword_value(loader, "collate_fn")
    made = project.fact(Resolver).points_to(module, given) if given is not None else ()
    return any(isinstance(ref.node, FUNCTIONS) and _pads(project, ref.module, ref.node) for ref in made)


@query
def _pads(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    parts = [part for ref in _with_callees(project, NodeRef(module, function), MAX_CALLS) for part in walk(ref.node)]
    return (
        any(isinstance(part, ast.stmt) and _asks_for_largest(part) for part in parts)
        and any(isinstance(part, ast.Call) and last_name(part.func) in _FILLS for part in parts)
        and not any(_TELLS.search(name) for name in map(_name, parts))
    )


def _with_callees(project: Project, function: NodeRef, calls: int) -> Iterator[NodeRef]:
    yield function
    if not calls:
        return
    for part in walk(function.node):
        if isinstance(part, ast.Call):
            for callee in project.fact(Resolver).callees(function.module, part):
                if isinstance(callee.node, FUNCTIONS) and callee.node is not function.node:
                    yield from _with_callees(project, callee, calls - 1)


def _asks_for_largest(statement: ast.stmt) -> bool:
    """``width = max(image.shape[2] for image in images)``, ``size = max_by_axis([image.shape for image in images])``"""
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return):
        return False
    parts = list(walk(statement))
    return any(_name(part) in _SHAPES for part in parts) and any(
        isinstance(part, ast.Call) and _LARGEST.search(last_name(part.func)) for part in parts
    )


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return name
    return ""
