"""Start as many processes as there are GPUs."""

from __future__ import annotations

from gpulint_rules.job.gpu103_gpu_oversubscription import TooFew

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found = finding.payload
    if not isinstance(found, TooFew):
        return Declined("there is no number of processes to change")
    document = project.document(found.place.path)
    if document is None or found.place.span.cell is not None:
        return Declined("the launcher is not in a plain file")
    span = found.place.span
    source = document.source
    written = source.text[source.offset(span.line, span.column) : source.offset(span.end_line, span.end_column)]
    if not written.isdecimal():
        return Declined(f"the number of processes is not written as a plain number: {written!r}")
    text = (
        "gpu" if found.launcher == "torchrun" and "nproc" in source.line(span.line)[: span.column] else str(found.gpus)
    )
    description = f"start {found.gpus} processes on each node; the global batch grows with them"
    return Fix(description, Safety.UNSAFE, (Edit(found.place.path, span, text),))


FIXER = Fixer("GPU103", fix)
