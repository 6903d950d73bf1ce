"""Name all the devices that the job requests, or request the one that its program uses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpulint_rules.job.gpu104_partial_device_list import Partial

from gpulint import regex
from gpulint.finding import Finding, Place
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint_fixers.edits.comments import comment_beside
from gpulint_fixers.edits.gpu_requests import request_fewer, text_of

MAX_DEVICES = 1_000
"""More than any machine has; a request for more is a slip."""
_SPEAKS = regex.compile(r"\b(gpus?|devices?|cards?|memory|oom|only|cuda)\b", re.IGNORECASE)
_PROCESSES = regex.compile(r"((?:--?[\w-]+[=\s]\s*)?\"?)\d{1,9}(\"?)")
"""An option's name and a number."""
_LISTED = regex.compile(r"(.*?)(\d+(?:,\d+)*)([\"']?)")


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found, document = finding.payload, project.document(finding.path)
    if not isinstance(found, Partial) or document is None or finding.span.cell is not None:
        return Declined("the list is in a notebook")
    if found.gpus > MAX_DEVICES:
        return Declined(f"no machine has {found.gpus:,} GPUs")
    if comment_beside(document.source, finding.span, _SPEAKS):
        return Declined("the comment beside it may say why there are fewer")
    span, text = finding.span, text_of(document, finding.span)
    if found.request is not None:
        return _fewer(finding, project, found, found.request, text)
    if found.doubtful:
        return Declined("nothing in the program is known to use several GPUs: request as many as it uses")
    if found.evaluates:
        return Declined("the program only evaluates, and more processes may each go through all samples: request fewer")
    everything = ",".join(map(str, range(found.gpus)))
    if re.fullmatch(r"\d+", text) and found.language == "python":
        new = str(found.gpus)
    elif re.fullmatch(r"\[\s*\d+(\s*,\s*\d+)*\s*\]", text):
        new = f"[{everything.replace(',', ', ')}]"
    elif match := re.fullmatch(r"(?s)(.*?)(\d+(?:,\d+)*)([\"']?)", text):
        new = match[1] + everything + match[3]
    else:
        return Declined(f"the list is not a literal here: {text!r}")
    edits = (Edit(finding.path, span, new), *_processes(project, found))
    return Fix(f"use all {found.gpus} requested GPUs; the global batch may grow with them", Safety.UNSAFE, edits)


def _processes(project: Project, found: Partial) -> Iterator[Edit]:
    """Yield a process for each device, where a number of them is written out for a launcher."""
    for place in found.processes:
        document = project.document(place.path)
        written = _PROCESSES.fullmatch(text_of(document, place.span)) if document is not None else None
        if written is not None:
            yield Edit(place.path, place.span, f"{written[1]}{found.gpus}{written[2]}")


def _fewer(finding: Finding, project: Project, found: Partial, request: Place, text: str) -> Fix | Declined:
    """Request as many GPUs as the list has, and name the first ones: a job sees no others."""
    if found.passed_on:
        return Declined(f"the command names devices itself: {found.passed_on!r}")
    edit = request_fewer(project, request, found.gpus, found.used)
    if isinstance(edit, Declined):
        return edit
    listed = _LISTED.fullmatch(text)
    counted = "the one GPU" if found.used == 1 else f"the {found.used} GPUs"
    if listed is None:
        return Declined(f"the list is not a literal here: request {counted} that the program uses")
    edits, first = [edit], ",".join(map(str, range(found.used)))
    if listed[2] != first:
        edits.append(Edit(finding.path, finding.span, f"{listed[1]}{first}{listed[3]}"))
    return Fix(f"request {counted} that the program uses", Safety.UNSAFE, tuple(edits))


FIXER = Fixer("GPU104", fix)
