"""Elastic deformations of the samples of a data set: each takes the CPU tens of milliseconds."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.project import Project

_ELASTIC = regex.compile(
    r"^(Elastic(Transform|Deform\w*)|Rand(2D|3D)Elasticd?|RandomElastic\w*|elastic_(transform|deform\w*)|deform_grid"
    r"|deform_random_grid|map_coordinates)$"
)
"""Calls that deform, of albumentations, torchvision, MONAI, TorchIO, elasticdeform and SciPy."""
_SWITCHES = ("do_elastic_deform", "do_elastic", "elastic_deform")
"""Arguments of transforms of batchgenerators that switch a deformation on."""
MAX_STEPS = 3
"""Most objects within each other that a transform is followed through."""


@query
def deforms(project: Project, source: NodeRef) -> bool:
    """Return whether a data set deforms its samples: in its class, or in a transform that it is given."""
    resolver, seen = project.fact(Resolver), set[ast.AST]()
    todo = [(source, 0)]
    while todo:
        ref, depth = todo.pop()
        if ref.node in seen:
            continue
        seen.add(ref.node)
        if any(_is_elastic(call) for call in walk(ref.node) if isinstance(call, ast.Call)):
            return True
        if depth < MAX_STEPS and isinstance(ref.node, ast.Call):
            owners = resolver.classes_of(ref.module, ref.node)
            todo += [(NodeRef(where, owner), depth + 1) for where, owner in owners]
            todo += [(made, depth + 1) for made in _given(resolver, ref.module, ref.node)]
            todo += [
                (one, depth + 1)
                for one in resolver.callees(ref.module, ref.node)
                if isinstance(one.node, FUNCTIONS) and not owners
            ]
    return False


def _given(resolver: Resolver, module: ModuleIndex, call: ast.Call) -> Iterator[NodeRef]:
    """Yield what the arguments of a call that are transforms point to."""
    for value in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(value, ast.Name | ast.Attribute):
            yield from (ref for ref in resolver.points_to(module, value) if isinstance(ref.node, ast.Call))
        elif isinstance(value, ast.Call):
            yield NodeRef(module, value)


def _is_elastic(call: ast.Call) -> bool:
    if _ELASTIC.search(last_name(call.func)):
        return True
    given = (keyword_value(call, name) for name in _SWITCHES)
    return any(isinstance(value, ast.Constant) and value.value is True for value in given)
