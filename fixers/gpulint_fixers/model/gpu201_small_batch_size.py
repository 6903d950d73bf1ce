"""Writes the training batch that fits, where the user had it estimated."""

from __future__ import annotations

import dataclasses
import re

from gpulint_rules.model.gpu201_small_batch_size import SmallBatch

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.source import Span


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
        " (fewer, larger steps; scale the learning rate; results change)"
    )
    return Fix(description, Safety.UNSAFE, (Edit(finding.path, number, str(batch.fits.train_batch)),))


def _number(finding: Finding, project: Project, batch: SmallBatch) -> Span | None:
    """Where the number stands; None if there are none or several."""
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
