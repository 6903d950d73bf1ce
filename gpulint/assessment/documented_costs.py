"""What the documentation of a tree says of the cost of a construct that its programs use on purpose."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query
from gpulint.workspace.module_index import FUNCTIONS

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_NAMES = {
    "data-parallel": regex.compile(r"(?<!Distributed)\bDataParallel\b|\bnn\.DataParallel\b"),
    "allocator-flush": regex.compile(r"\bempty_cache\b"),
}
"""How texts call what costs time, by the kind of cost."""
_KNOWN = regex.compile(
    r"\boverhead\b|\bslower\b|\bbottleneck|imbalanc|\bon purpose\b|\bdeliberate|\bintentional|\btrade-?off|defrag"
    r"|\binstead of\b|\brather than\b|\bbecause\b|\bdue to\b|\bto avoid\b|fragment|\boom\b|out[- ]of[- ]memory",
    re.IGNORECASE,
)
"""Words of who knows the cost of a construct, or has a reason for it."""
_TO_DO = regex.compile(
    r"\b(todo|fixme|should|replace[ds]?|migrat\w+|switch(ed)? (from|to)|planned|future)\b", re.IGNORECASE
)
_TEXTS = regex.compile(r"README[\w.-]*|[\w.-]+\.(?:md|rst)", re.IGNORECASE)
_FOLDERS = frozenset({"doc", "docs", "documentation", "notes"})


def names_cost(subject: Subject) -> bool:
    """Return whether a line of the documentation, or of a docstring around the place, speaks of what the finding is
    about and of its cost, or the reason for it (``DataParallel adds scatter/gather overhead on GPU0``)."""
    if subject.cost is None:
        return False
    kind = subject.cost.kind
    return any(_speaks_of(text, kind) for text in _docstrings(subject)) or _is_documented(subject.project, kind)


def _docstrings(subject: Subject) -> Iterator[str]:
    module, node = subject.module, subject.node
    if module is None or node is None:
        return
    for up in (*module.syntax.ancestors(node), module.syntax.tree):
        if isinstance(up, (*FUNCTIONS, ast.ClassDef, ast.Module)):
            yield ast.get_docstring(up) or ""


@query
def _is_documented(project: Project, kind: str) -> bool:
    texts = (project.data(path).decode("utf-8", "replace") for path in _documentation(project))
    return any(_speaks_of(text, kind) for text in texts)


def _speaks_of(text: str, kind: str) -> bool:
    name = _NAMES[kind]
    return name.search(text) is not None and any(
        name.search(line) and _KNOWN.search(line) and not _TO_DO.search(line) for line in text.splitlines()
    )


def _documentation(project: Project) -> Iterator[Path]:
    """The texts at the root of a tree, and in its folders for them."""
    names = sorted(project.entries(project.root))
    for folder in (project.root, *(project.root / name for name in names if name.lower() in _FOLDERS)):
        for name in sorted(project.entries(folder)):
            if _TEXTS.fullmatch(name) and project.is_file(folder / name):
                yield folder / name
