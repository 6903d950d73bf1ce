"""Detaches what is accumulated."""

from __future__ import annotations

from gpulint_rules.model.gpu204_graph_retained import RetainedGraph

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.source import Span


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found = finding.payload
    assert isinstance(found, RetainedGraph)
    end = finding.span
    at = Span(end.end_line, end.end_column, end.end_line, end.end_column, end.cell)
    return Fix("accumulate the value without its graph", Safety.SAFE, (Edit(finding.path, at, ".detach()"),))


FIXER = Fixer("GPU204", fix)
