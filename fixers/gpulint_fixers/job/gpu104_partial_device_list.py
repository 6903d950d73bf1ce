"""Name all the devices that the job requests."""

from __future__ import annotations

import re

from gpulint_rules.job.gpu104_partial_device_list import Partial

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project

MAX_DEVICES = 1_000
"""More than any machine has; a request for more is a slip."""


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found, document = finding.payload, project.document(finding.path)
    if not isinstance(found, Partial) or document is None or finding.span.cell is not None:
        return Declined("the list is in a notebook")
    if found.gpus > MAX_DEVICES:
        return Declined(f"no machine has {found.gpus:,} GPUs")
    source, span = document.source, finding.span
    text = source.text[source.offset(span.line, span.column) : source.offset(span.end_line, span.end_column)]
    everything = ",".join(map(str, range(found.gpus)))
    if re.fullmatch(r"\d+", text) and found.language == "python":
        new = str(found.gpus)
    elif re.fullmatch(r"\[\s*\d+(\s*,\s*\d+)*\s*\]", text):
        new = f"[{everything.replace(',', ', ')}]"
    elif match := re.fullmatch(r"(?s)(.*?)(\d+(?:,\d+)*)([\"']?)", text):
        new = match[1] + everything + match[3]
    else:
        return Declined(f"the list is not a literal here: {text!r}")
    edit = Edit(finding.path, span, new)
    return Fix(f"use all {found.gpus} requested GPUs; the global batch may grow with them", Safety.UNSAFE, (edit,))


FIXER = Fixer("GPU104", fix)
