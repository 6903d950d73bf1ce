"""What the documentation of a tree says of constructs that its programs use on purpose: their cost, or the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.project import Project

_NAMES = {
    "data-parallel": regex.compile(r"(?<!Distributed)\bDataParallel\b|\bnn\.DataParallel\b"),
    "allocator-flush": regex.compile(r"\bempty_cache\b"),
    "without-cudnn": regex.compile(
        r"\bcudnn\.enabled\b|\bcudnn (?:is |was )?(?:disabled|switched off|turned off)\b"
        r"|\b(?:disabl\w+|without|turn\w* off|switch\w* off) cudnn\b",
        re.IGNORECASE,
    ),
}
"""How texts call what costs time, by the kind of cost."""
_KNOWN = regex.compile(
    r"\boverhead\b|\bslower\b|\bbottleneck|imbalanc|\bon purpose\b|\bdeliberate|\bintentional|\btrade-?off|defrag"
    r"|\bsegfault|\bcrash|\bworkaround|\bcudnn_status|\bunsupported\b|\bnot supported\b"
    r"|\binstead of\b|\brather than\b|\bbecause\b|\bdue to\b|\bto avoid\b|fragment|\boom\b|out[- ]of[- ]memory",
    re.IGNORECASE,
)
"""Words of who knows the cost of a construct, or has a reason for it."""
_TO_DO = regex.compile(
    r"\b(todo|fixme|should|replace[ds]?|migrat\w+|switch(ed)? (from|to)|planned|future)\b", re.IGNORECASE
)
_TEXTS = regex.compile(r"README[\w.-]*|[\w.-]+\.(?:md|rst)", re.IGNORECASE)
_FOLDERS = frozenset({"doc", "docs", "documentation", "notes"})


@query
def is_documented(project: Project, kind: str) -> bool:
    """Return whether a line of the documentation names a construct, by the kind of its cost, and its cost or the reason
    for it."""
    texts = (project.data(path).decode("utf-8", "replace") for path in _documentation(project))
    return any(speaks_of(text, kind) for text in texts)


def speaks_of(text: str, kind: str) -> bool:
    """Return whether a line of a text does so."""
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
