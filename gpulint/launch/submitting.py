"""Which programs submit jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.documents.calls import CallRows
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project


def submitting_files(project: Project) -> frozenset[Path]:
    """Python files and notebooks whose words say that they may submit jobs."""
    rows = project.models.derived(CallRows)
    modules, names = (frozenset(map(word_of, words)) for words in (rows.imports, rows.names))
    index = project.word_index
    notebooks = (path for path in project.notebooks() if index.holds_one(path, modules))
    return frozenset(path for path in (*index.importing(modules), *notebooks) if index.holds_one(path, names))
