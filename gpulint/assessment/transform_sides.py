"""Sides of images by the transforms that a data set applies to its samples, where each size can be followed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workload.gpu_samples import reached
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_SIZED = frozenset("Resize CenterCrop RandomCrop RandomResizedCrop FiveCrop TenCrop".split())
_CHAINS = frozenset({"Compose", "Sequential"})
MAX_CHAINS = 4
"""Most chains that an attribute may hold."""


@query
def applied_side(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> int:
    """The side that the chains of transforms which make a sample of a data set end in; 0 if one of them names none, or
    none is seen."""
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    get = methods.get("__getitem__")
    names = {name for method in reached(methods, get) for name in _called(method)} if get is not None else ()
    chains = [chain for name in sorted(names) for chain in _chains(project, module, owner, name)]
    sides = [_end(project, chain) for chain in chains]
    return max(sides, default=0) if all(sides) else 0


def _called(method: ast.FunctionDef) -> Iterator[str]:
    """``transform`` of ``self.transform(image)``"""
    for part in walk(method):
        match part:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                yield name


def _chains(project: Project, module: ModuleIndex, owner: ast.ClassDef, name: str) -> Iterator[NodeRef]:
    """The chains of transforms that an attribute holds."""
    resolver = project.fact(Resolver)
    for where, binding in resolver.class_attribute(module, owner, name)[:MAX_CHAINS]:
        made = resolver.points_to(where, binding.value) if binding.value is not None and not binding.path else ()
        for ref in made[:MAX_CHAINS]:
            if isinstance(ref.node, ast.Call) and last_name(ref.node.func) in _CHAINS:
                yield ref


def _end(project: Project, chain: NodeRef) -> int:
    """The side that the last transform with a size leaves; 0 if it cannot be followed."""
    sized = [part for part in walk(chain.node) if isinstance(part, ast.Call) and last_name(part.func) in _SIZED]
    if not sized:
        return 0
    last = max(sized, key=lambda part: (part.lineno, part.col_offset))
    size = last.args[0] if last.args else keyword_value(last, "size")
    if isinstance(size, ast.Tuple | ast.List) and size.elts:
        size = size.elts[0]
    known = project.fact(Constants).of(chain.module, size) if size is not None else None
    if known is None or not known.complete:
        return 0
    return max((value for value in known.constants if isinstance(value, int)), default=0)
