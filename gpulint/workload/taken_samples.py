"""Data sets from which others take their samples each time, and not only until they keep them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.placement.inner_sets import GETTERS, MAX_SETS, classes_of, drawn_sets, methods_of_samples
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.workload.filled_samples import filled_attributes, runs_for_missing
from gpulint.workload.kept_samples import keeps_on_disk, keeps_results
from gpulint.workspace.module_index import FUNCTIONS, NodeRef

if TYPE_CHECKING:
    from gpulint.placement.inner_sets import Drawn
    from gpulint.project import Project


@query
def inner_sets(project: Project, made: NodeRef) -> tuple[NodeRef, ...]:
    """Return what makes the data sets from which the samples of another one are taken in each epoch, directly or
    through others; without those of samples that the constructor has read, or a method keeps."""
    found, todo = dict[NodeRef, None](), [made]
    while todo and len(found) < MAX_SETS:
        outer = todo.pop(0)
        for drawn in drawn_sets(project, outer):
            if drawn.source not in found and drawn.source != made and not _is_kept(project, outer, drawn):
                found[drawn.source] = None
                todo.append(drawn.source)
    return tuple(found)


def _is_kept(project: Project, made: NodeRef, drawn: Drawn) -> bool:
    """Return whether samples are taken only for what is missing in a list, or in a helper that keeps its results."""
    module, at = drawn.at.module, drawn.at.node
    for owner in classes_of(project, [made]):
        if runs_for_missing(module, at, filled_attributes(project, NodeRef(*owner), made)):
            return True
    function = module.function(at)
    if not isinstance(function, FUNCTIONS):
        return False
    helper = NodeRef(module, function)
    if keeps_on_disk(project, helper):
        return True
    return function.name not in GETTERS and (keeps_results(project, helper) or _runs_once(project, made, helper))


def _runs_once(project: Project, made: NodeRef, helper: NodeRef) -> bool:
    """Return whether a method sets an attribute of which each of its calls asks whether it is there (``if self.items is
    None: self.fill()``)."""
    assert isinstance(helper.node, FUNCTIONS)
    stored = {
        part.attr for part in walk(helper.node) if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
    }
    asked = [
        any(
            isinstance(part, ast.Attribute) and part.attr in stored
            for test, _ in conditions(method.module, call)
            for part in walk(test)
        )
        for owner in classes_of(project, [made])
        for method in methods_of_samples(project, NodeRef(*owner))
        for call in walk(method.node)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == f"self.{helper.node.name}"
    ]
    return bool(asked) and all(asked)
