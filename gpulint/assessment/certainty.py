"""Findings are of code that runs; errors rest neither on a comment, nor on a branch that need not be taken."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from gpulint.assessment.choices import is_never_chosen, is_other_choice
from gpulint.assessment.place_facts import may_not_run
from gpulint.assessment.subject import node_at
from gpulint.comments import comments
from gpulint.finding import Place, Severity
from gpulint.rule import Kind
from gpulint.semantic.failing_calls import joins_no_path
from gpulint.semantic.local_keys import asks_for_missing_key
from gpulint.semantic.path_conditions import is_unreachable
from gpulint.training.guards import Guards
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.undrawn_loaders import UndrawnLoaders

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.finding import Finding
    from gpulint.project import Project
    from gpulint.source import Span


def as_sure_as_its_places(finding: Finding, project: Project) -> Finding:
    """The finding; as a warning if it is an error and a place that it rests on is a comment or may not be reached."""
    if finding.severity is not Severity.ERROR:
        return finding
    if all(_is_sure(project, place) for place in (Place(finding.path, finding.span), *finding.related)):
        return finding
    return dataclasses.replace(finding, severity=Severity.WARNING)


def is_optional(finding: Finding, project: Project) -> bool:
    """Return whether a finding, or what it rests on, is in text that a template writes only under a condition."""
    for place in (Place(finding.path, finding.span), *finding.related):
        document = project.document(place.path)
        if document is not None and document.is_optional(place.span):
            return True
    return False


def never_runs(finding: Finding, project: Project) -> bool:
    """Return whether a finding is behind a ``raise``, ``return``, ``break`` or ``continue`` of its block, a test of a
    variable that its function sets to ``False`` or one for a key that nothing stores, is only reached where a setting
    has a value that no code gives it, or is about a call that raises an error."""
    document = project.document(finding.path)
    module = project.module(document) if document is not None else None
    node = node_at(module, finding.span) if module is not None else None
    return (
        module is not None
        and node is not None
        and (
            is_unreachable(module, node)
            or asks_for_missing_key(module, node)
            or is_never_chosen(project, module, node)
            or (isinstance(call := _value(node), ast.Call) and joins_no_path(project, module, call))
        )
    )


def _value(node: ast.AST) -> ast.AST:
    return node.value if isinstance(node, ast.Expr) else node


def is_of_undrawn_loader(finding: Finding, project: Project) -> bool:
    """Return whether a finding is about the call of a data loader, or an argument of it, from which nothing draws."""
    document = project.document(finding.path)
    module = project.module(document) if document is not None else None
    node = node_at(module, finding.span) if module is not None else None
    if module is None or node is None or isinstance(node, ast.stmt):
        return False
    flow = project.fact(LoaderFlow)
    around = (up for up in (node, *module.syntax.ancestors(node)) if isinstance(up, ast.Call))
    made = next(around, None)
    if made is None or not flow.is_loader(module, made):
        return False
    return any(one.node is made and project.fact(UndrawnLoaders).is_undrawn(one) for one in flow.in_module(module))


def _is_sure(project: Project, place: Place) -> bool:
    document = project.document(place.path)
    if document is None:
        return True
    if _is_in_comment(document, place.span):
        return False
    if document.kind not in (Kind.PYTHON, Kind.NOTEBOOK):
        return not may_not_run(document, place.span)
    module = project.module(document)
    node = node_at(module, place.span) if module is not None else None
    if module is None or node is None:
        return True
    guards = project.fact(Guards)
    return not (
        guards.is_off_by_default(module, node)
        or guards.is_without_gpu(module, node)
        or is_other_choice(project, module, node)
    )


def _is_in_comment(document: Document, span: Span) -> bool:
    """Return whether a span starts in a comment."""
    if "#" not in document.cell_source(span.cell).line(span.line)[: span.column]:
        return False
    return any(
        (comment.span.cell, comment.span.line) == (span.cell, span.line)
        and comment.span.column <= span.column <= comment.span.end_column
        and not comment.text.startswith(("#SBATCH", "#PBS", "#BSUB", "#$", "#FLUX", "#PJM", "#COBALT"))
        for comment in comments(document)
    )
