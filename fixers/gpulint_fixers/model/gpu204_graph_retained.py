"""Detaches what is accumulated."""

from __future__ import annotations

import ast

from gpulint_rules.model.gpu204_graph_retained import RetainedGraph

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found = finding.payload
    assert isinstance(found, RetainedGraph)
    syntax = found.module.syntax
    start, end = syntax.offsets(found.value)
    edits: tuple[Edit, ...]
    if not isinstance(found.value, ast.BinOp):
        edits = (Edit(finding.path, syntax.span_at(end, end), ".detach()"),)
    elif (close := _closing(found)) is not None:
        edits = (Edit(finding.path, syntax.span_at(close, close), ".detach()"),)
    else:
        edits = (
            Edit(finding.path, syntax.span_at(start, start), "("),
            Edit(finding.path, syntax.span_at(end, end), ").detach()"),
        )
    return Fix("accumulate the value without its graph", Safety.SAFE, edits)


def _closing(found: RetainedGraph) -> int | None:
    """The offset behind the parentheses that an operation has of its own; None if it has none."""
    syntax = found.module.syntax
    if isinstance(syntax.parents.get(found.value), ast.Call):
        return None
    text = syntax.source.text
    start, end = syntax.offsets(found.value)
    before, after = text[:start].rstrip(), text[end:]
    blank = len(after) - len(after.lstrip())
    return end + blank + 1 if before.endswith("(") and after[blank:].startswith(")") else None


FIXER = Fixer("GPU204", fix)
