"""Gives evaluation a batch size of its own: twice the training one."""

from __future__ import annotations

import ast

from gpulint_rules.model.gpu202_eval_batch_size import EvalBatch, double

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.source import Span

_DESCRIPTION = "evaluate with twice the training batch (metrics averaged per batch may change, and it has to fit)"


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found = finding.payload
    if not isinstance(found, EvalBatch):
        return Declined("one batch size serves training and evaluation; which to change is a choice")
    source = found.evaluation
    if found.size:
        known = project.values.of(source.batch.scopes, source.batch.node)
        if all(value.place.span == finding.span and value.place.path == finding.path for value in known.values):
            return _replace(finding, finding.span, str(2 * found.size))
    node = source.batch.node
    module = source.call.scopes.module
    if "kwargs" in source.keyword or "opt" in source.keyword or not isinstance(node, ast.expr):
        return Declined("the batch size stands in a dictionary of options")
    if source.call.node not in set(module.ancestors(node)):
        return Declined("the batch size is set elsewhere, maybe for training as well")
    return _replace(finding, module.span(node), double(str(found.size) if found.size else found.training.text))


def _replace(finding: Finding, span: Span, text: str) -> Fix:
    return Fix(_DESCRIPTION, Safety.UNSAFE, (Edit(finding.path, span, text),))


FIXER = Fixer("GPU202", fix)
