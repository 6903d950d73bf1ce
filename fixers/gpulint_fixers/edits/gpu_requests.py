"""Fewer GPUs in a job's request."""

from __future__ import annotations

import re

from gpulint_rules.job.surplus import Surplus

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.finding import Place
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.numerals import whole
from gpulint.project import Project
from gpulint.source import Span
from gpulint_fixers.edits.comments import comment_beside

_REQUEST = regex.compile(r"((?:.*[^\w.]|-G)?)(\d+)([\"']?)")
"""``--gres=gpu:4``, ``-G4``, ``4``: the number comes last."""
_PER_GPU = regex.compile(r"\b(cpus|mem|ntasks)[-_]per[-_]gpu\b")
_RESOURCE = regex.compile(r"\.com/gpu\b[\"']?\s{0,9}[:=]")
"""A resource of Kubernetes, such as ``nvidia.com/gpu: 4``."""
_WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight"}


def request_fewer(project: Project, request: Place, held: int, count: int) -> Edit | Declined:
    """The edit that requests ``count`` GPUs instead of the ``held`` ones, or why there is none."""
    counted = "1 GPU" if count == 1 else f"{count} GPUs"
    document = project.document(request.path)
    asked = _REQUEST.fullmatch(text_of(document, request.span)) if document is not None else None
    if document is None or asked is None or whole(asked[2]) != held:
        return Declined(f"the request is not a literal here: request {counted}")
    if _PER_GPU.search(document.source.text):
        return Declined(f"cores, memory or tasks of the job are counted by its GPUs: request {counted}, and as much")
    if len(_RESOURCE.findall(document.source.text)) > 1:
        return Declined(f"the file requests GPUs in several places, which have to agree: request {counted}")
    if comment_beside(document.source, request.span, _reasons(held)):
        return Declined("the comment beside the request may say why there are more")
    return Edit(request.path, request.span, f"{asked[1]}{count}{asked[3]}")


def without(project: Project, found: Surplus) -> Fix | Declined:
    """Request the GPUs that the processes use."""
    if found.passed_on:
        return Declined(f"the command names devices itself: {found.passed_on!r}")
    edit = request_fewer(project, found.request, found.gpus, found.processes)
    if isinstance(edit, Declined):
        return edit
    counted = "the one GPU" if found.processes == 1 else f"the {found.processes} GPUs"
    return Fix(f"request {counted} that the program uses", Safety.UNSAFE, (edit,))


def _reasons(held: int) -> re.Pattern[str]:
    """Return what a comment says that would be wrong of fewer GPUs, or that tells why there are more than one."""
    number = f"{held}|{_WORDS[held]}" if held in _WORDS else f"{held}"
    return re.compile(rf"\b({number}|memory|vram|oom|exclusive|whole|entire|full)\b", re.IGNORECASE)


def text_of(document: Document, span: Span) -> str:
    """The text of a place in a document that is no notebook."""
    source = document.source
    return source.text[source.offset(span.line, span.column) : source.offset(span.end_line, span.end_column)]
