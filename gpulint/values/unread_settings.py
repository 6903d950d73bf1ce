"""Settings of YAML files that no program of the tree reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.project import Project

_OF_FRAMEWORK = regex.compile(r"\b(_target_|_component_|class_path|init_args)\b|^defaults:", re.MULTILINE)
"""Files of which a framework passes whole sections to what they name."""
_PASSES_ALL = regex.compile(r"[(,]\s*\*\*\s*\w")
"""``DataLoader(data, **config["loader"])``"""


def is_unread(project: Project, document: Document, key: str) -> bool:
    """Return whether programs of the tree load a file of settings by its name, but none reads a key of it: it is in no
    program, and none passes whole sections on."""
    if regex.occurs(_OF_FRAMEWORK, document.source.text):
        return False
    if project.word_index.mentioning(word_of(key.rpartition(".")[2])):
        return False
    named = re.compile(rf"\b{re.escape(document.path.name)}\b")
    files = project.python_files
    return any(project.matches(path, named) for path in files) and not any(
        project.matches(path, _PASSES_ALL) for path in files
    )
