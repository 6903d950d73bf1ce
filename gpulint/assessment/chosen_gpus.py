"""GPUs that a program hides as an option, or a value with a written reason, says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.values.constants import Constants, Value
from gpulint.values.replaced_settings import is_default

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject

_CPU = regex.compile(r"\bcpu\b", re.IGNORECASE)


def are_chosen(subject: Subject) -> bool:
    """Return whether the value that hides the GPUs is the default of an option, which whoever starts the program
    passes, or has a comment beside it that says it is for the CPU, and no job with GPUs runs the program as it is."""
    module, span = subject.module, subject.finding.span
    if module is None or any(job.gpus is not None and job.gpus.value != 0 for job in subject.jobs):
        return False
    for target, value, _ in module.stores.get("environ", ()):
        if value is not None and module.syntax.span(target).line == span.line and not subject.is_notebook:
            known = subject.project.fact(Constants).of(module, value)
            return known.complete and all(_is_choice(subject, one) for one in known.values)
    return False


def _is_choice(subject: Subject, value: Value) -> bool:
    if is_default(subject.project, value):
        return True
    document = subject.project.document(value.place.path)
    line = document.cell_source(value.place.span.cell).line(value.place.span.line) if document is not None else ""
    return bool(_CPU.search(line.partition("#")[2]))
