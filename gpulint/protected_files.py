"""Files whose heads ask people to leave them as they are: scripts that grade, that are generated, or are kept in step
with others."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project

_EDIT = r"(?:edit|change|modify|touch|alter)"
_WHOLE = r"(?:file|script|program|module|notebook)"
_FORBIDS = regex.compile(
    rf"\b(?:do not|don't|dont|never|must not|may not|should not|cannot) (?:manually )?{_EDIT} "
    rf"(?:(?:this|the|any(?:thing)?)\b[\w ]{{0,30}}\b{_WHOLE}\b|(?:anything|any code|the code|code) (?:here|below)\b)"
    rf"|\b{_WHOLE} (?:must|should|may|shall|is|can)(?: not|n't)? (?:not )?(?:to )?be "
    r"(?:edited|changed|modified|touched|altered)\b"
    rf"|\b(?:do not|don't) {_EDIT}(?: by hand| manually| directly)?[ \t]*(?:[.!;:-]|$)",
    re.IGNORECASE | re.MULTILINE,
)
"""What a head says that forbids changes of its file."""
_NOT = regex.compile(r"\bnot\b|n't|\bnever\b|\bcannot\b|\bdont\b", re.IGNORECASE)
MAX_LINES = 40
"""Most lines of a head."""


@query
def forbids_edits(project: Project, path: Path) -> bool:
    """Return whether the comments in front of a file's first line of code, or its docstring, forbid changes of it."""
    document = project.document(path)
    if document is None or path.suffix == ".ipynb":
        return False
    lines = document.source.text.split("\n", MAX_LINES)[:MAX_LINES]
    head = list[str]()
    for line in map(str.strip, lines):
        if line and not line.startswith("#"):
            break
        head.append(line.lstrip("# \t"))
    tree = document.python.tree if document.python is not None else None
    said = ast.get_docstring(tree) if isinstance(tree, ast.Module) else None
    return any(
        _NOT.search(found[0]) is not None for text in ("\n".join(head), said or "") for found in _FORBIDS.finditer(text)
    )
