"""Names for findings that hold while a fix run rewrites the files around them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulint.finding import Finding
    from gpulint.project import Project

Key = tuple[str, Path, int | None, int, str]
"""Names a finding within one round: code, file, cell, character offset, message."""


def key_of(finding: Finding, project: Project) -> Key:
    """Return the key of a finding of a project."""
    span, document = finding.span, project.document(finding.path)
    offset = 0 if document is None else document.cell_source(span.cell).offset(span.line, span.column)
    return finding.rule.code, finding.path, span.cell, offset, finding.message


def unnumbered(key: Key) -> Key:
    """The key with the message's numbers left out, which a fix may have changed."""
    return *key[:-1], re.sub(r"\d[\d,.]*", "N", key[-1])
