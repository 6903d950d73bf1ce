"""Functions that raise an error before they hand out a loader, and samples that always raise one: no change of the
loader makes them any faster."""

from __future__ import annotations

import ast

from gpulint.project import Project
from gpulint.semantic.failing_names import undefined_in_text
from gpulint.semantic.failing_results import failures
from gpulint.training.loader_calls import Loader
from gpulint.workload.dataset_work import parts_of
from gpulint.workload.failing_samples import failing_sample


def never_made(project: Project, loader: Loader) -> str:
    """Return why a loader is never made, as a text for a person; empty where nothing says so."""
    undefined = {*map(id, undefined_in_text(project, loader.module))}
    for made in parts_of(project, loader):
        maker = made.node.func if isinstance(made.node, ast.Call) and made.module is loader.module else None
        if isinstance(maker, ast.Name) and id(maker) in undefined:
            return f"nothing defines `{maker.id}`, which is to make the data set"
    function = loader.module.function(loader.node)
    found = failures(project, loader.module, function) if function is not None else ()
    for failed in found:
        if failed.lineno > (loader.node.end_lineno or loader.node.lineno):
            continue
        if isinstance(failed, ast.Name):
            return f"the function always raises an error first: nothing defines `{failed.id}`"
        return f"the function always raises an error, in {loader.module.syntax.span(failed).words}"
    if (sample := failing_sample(project, loader)) is None:
        return ""
    where, part = sample
    if isinstance(part, ast.Name):
        return f"each sample raises an error first: nothing defines `{part.id}`"
    return f"each sample raises an error, in {where.syntax.span(part).words} of '{where.path.name}'"
