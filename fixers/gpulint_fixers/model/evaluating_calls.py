"""Blocks around the calls that evaluate with a function that trains in others."""

from __future__ import annotations

import ast

from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.training.inference_loops import InferenceLoop, evaluating_sites
from gpulint_fixers.edits.structural import wrap
from gpulint_fixers.model.gradient_blocks import MOST_LINES, lines_of

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)


def around_calls(project: Project, found: InferenceLoop, header: str) -> Fix | Declined:
    """Return the edits that put each statement with such a call under a header."""
    module, name = found.module, getattr(found.function, "name", "")
    sites = evaluating_sites(project, found)
    document = project.document(module.path)
    if document is None or not sites or any(site.module is not module for site in sites):
        return Declined("the same loop trains in other calls, and another module makes those that evaluate")
    statements = dict[ast.stmt, None]()
    for site in sites:
        statement = next(up for up in module.syntax.ancestors(site.node) if isinstance(up, ast.stmt))
        if not isinstance(statement, _SIMPLE) or lines_of(module, [statement]) > MOST_LINES:
            return Declined("the same loop trains in other calls, and one that evaluates is in no statement of its own")
        statements[statement] = None
    edits = list[Edit]()
    for statement in statements:
        made = wrap(document, statement, header)
        if isinstance(made, Declined):
            return made
        edits += made
    return Fix(f"call {name!r} in `{header}` where it evaluates", Safety.UNSAFE, tuple(edits))
