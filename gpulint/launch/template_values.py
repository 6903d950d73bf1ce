"""Counts that a template fills in: whether they are 0 unless somebody sets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.yamlvalues import flatten

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.project import Project

_ZERO = regex.compile(r"""\|\s*default[\s(]+["']?0["']?[\s)|}]|\{\{-?\s*default\s+["']?0["']?\s""")
"""``{{ gpus | default(0) }}`` of Jinja, ``{{ default 0 .Values.gpus }}`` of Helm."""
_CHART_VALUE = regex.compile(r"\.Values\.([\w.]+)")
_CHART_FILE = "values.yaml"


def is_zero_by_default(project: Project, document: Document, text: str) -> bool:
    """Is a count as written (``nvidia.com/gpu: {{ .Values.gpus }}``) 0 by the template or the chart's values?"""
    if "{{" not in text:
        return False
    if _ZERO.search(text):
        return True
    wanted = _CHART_VALUE.search(text)
    folder = next((up for up in document.path.parents if up.name == "templates"), None)
    if wanted is None or folder is None:
        return False
    values = project.document(folder.parent / _CHART_FILE)
    found = flatten(values.source).get(wanted[1]) if values is not None else None
    return found is not None and str(found[0]) == "0"
