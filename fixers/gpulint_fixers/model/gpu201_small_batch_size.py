"""Writes the training batch that fits, where the user had it estimated."""

from __future__ import annotations

import ast
import dataclasses
import re

from gpulint_rules.model.gpu201_small_batch_size import SmallBatch

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.source import Span

_RATES = frozenset({"lr", "learning_rate", "base_lr", "init_lr"})


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Replace the number itself."""
    batch = finding.payload
    assert isinstance(batch, SmallBatch)
    if batch.fits is None or batch.fits.training < 1:
        return Declined(
            "the largest batch that fits is unknown: name the model factory in the settings and pass --estimate"
        )
    number = _number(finding, project, batch)
    if number is None:
        return Declined(f"the batch size is not set here; {batch.fits.train_batch} would fit {batch.fits.card}")
    description = (
        f"train with batches of {batch.fits.train_batch}, which fit {batch.fits.card}"
        f" (fewer, larger steps; scale the learning rate{_learning_rate(project, finding)}; results change)"
    )
    return Fix(description, Safety.UNSAFE, (Edit(finding.path, number, str(batch.fits.train_batch)),))


def _learning_rate(project: Project, finding: Finding) -> str:
    """Return where the program writes its learning rate, as far as its file tells."""
    module = project.module_at(finding.path)
    if module is None:
        return ""
    for call in module.calls:
        flags = [value.value for value in call.args if isinstance(value, ast.Constant) and isinstance(value.value, str)]
        own = any(flag.lstrip("-").replace("-", "_") in _RATES for flag in flags)
        for keyword in call.keywords:
            if isinstance(keyword.value, ast.Constant) and (
                keyword.arg in _RATES or (own and keyword.arg == "default")
            ):
                return f", {module.syntax.text(keyword.value)} in {module.syntax.span(keyword.value).words},"
    return ""


def _number(finding: Finding, project: Project, batch: SmallBatch) -> Span | None:
    """Return where the number stands; None if there are none or several."""
    document = project.document(finding.path)
    if document is None:
        return None
    source = document.cell_source(batch.number.cell)
    start = source.offset(batch.number.line, batch.number.column)
    end = source.offset(batch.number.end_line, batch.number.end_column)
    found = [*re.finditer(rf"(?<![\w.]){batch.size}(?![\w.])", source.text[start:end])]
    if len(found) != 1:
        return None
    span = source.span(start + found[0].start(), start + found[0].end())
    return dataclasses.replace(span, cell=batch.number.cell)


FIXER = Fixer("GPU201", fix)
