"""Linear layers that are trained on the features of a frozen model: the features could be computed once."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.assessment.amounts import batch_of
from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.query import query
from gpulint.semantic.path_conditions import contexts_of
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import LOOPS, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_LINEAR = "torch.nn.Linear"
_NO_GRAD = frozenset({"no_grad", "inference_mode"})


def probes_small_images(subject: Subject) -> bool:
    """Return whether all loops over a loader of small images compute features without gradients, and train a linear
    layer on them."""
    loader, project = subject.cost.loader if subject.cost is not None else None, subject.project
    if loader is None or batch_of(subject, loader).kind != "small-image":
        return False
    reads = project.fact(BatchFlow).of_loader(loader.module, loader.node)
    return bool(reads) and all(_probes(project, read.where) for read in reads)


@query
def _probes(project: Project, loop: NodeRef) -> bool:
    if not isinstance(loop.node, LOOPS):
        return False
    parts = [part for statement in loop.node.body for part in walk(statement)]
    frozen = [part for part in parts if isinstance(part, ast.With) and any(map(_is_no_grad, contexts_of(part)))]
    computes = any(isinstance(part, ast.Call) for block in frozen for part in walk(block))
    steps = [part for part in parts if isinstance(part, ast.Call) and last_name(part.func) == "step"]
    return (
        computes
        and bool(steps)
        and all(
            isinstance(step.func, ast.Attribute) and _is_of_linear(project, NodeRef(loop.module, step.func.value))
            for step in steps
        )
    )


def _is_no_grad(context: ast.expr) -> bool:
    return last_name(context.func if isinstance(context, ast.Call) else context) in _NO_GRAD


def _is_of_linear(project: Project, optimizer: NodeRef) -> bool:
    """Return whether an optimizer is made for the weights of one linear layer."""
    resolver, found = project.fact(Resolver), list[NodeRef]()
    for made in resolver.points_to(optimizer.module, optimizer.node):
        match made.node:
            case ast.Call(args=[ast.Call(func=ast.Attribute(value=model, attr="parameters")), *_]):
                found += resolver.points_to(made.module, model)
            case _:
                return False
    return bool(found) and all(
        isinstance(one.node, ast.Call) and _LINEAR in resolver.call_names(one.module, one.node) for one in found
    )
