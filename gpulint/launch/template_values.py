"""Counts that a template fills in: what they are unless somebody sets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.yamlvalues import flatten
from gpulint.numerals import whole

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.project import Project

_DEFAULT = regex.compile(
    r"""\|\s*default[\s(]+["']?(\d+)["']?[\s)|}]|\{\{-?\s*default\s+["']?(\d+)["']?\s|\{\{-?\s*(\d+)\s*-?\}\}"""
)
"""``{{ gpus | default(0) }}`` of Jinja, ``{{ default 0 .Values.gpus }}`` of Helm."""
_CHART_VALUE = regex.compile(r"\.Values\.([\w.]+)")
_CHART_FILE = "values.yaml"


def default_count(project: Project, document: Document, text: str) -> int | None:
    """The number that a count as written (``nvidia.com/gpu: {{ .Values.gpus }}``) is by the chart's values or by the
    template; None if neither says."""
    if "{{" not in text:
        return None
    written = _from_chart(project, document, text)
    if written is None and (match := _DEFAULT.search(text)):
        written = next(number for number in match.groups() if number is not None)
    return None if written is None else whole(written)


def _from_chart(project: Project, document: Document, text: str) -> str | None:
    wanted = _CHART_VALUE.search(text)
    folder = next((up for up in document.path.parents if up.name == "templates"), None)
    if wanted is None or folder is None:
        return None
    values = project.document(folder.parent / _CHART_FILE)
    found = flatten(values.source).get(wanted[1]) if values is not None else None
    return None if found is None else str(found[0])
