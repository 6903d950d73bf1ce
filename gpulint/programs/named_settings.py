"""JSON files that a program or its arguments name: no files of a scan, but perhaps its settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex

if TYPE_CHECKING:
    from gpulint.project import Project

_JSON = regex.compile(r"(?<![\w./-])[\w./-]+\.json\b")
MAX_NAMED = 20
"""Most names that are looked for."""


def named_settings(project: Project, program: Path | None, texts: Iterable[str]) -> Iterator[Path]:
    """Yield the JSON files of the tree that are named in ``texts``, from the folder of a program or the root."""
    names = dict.fromkeys(match.group() for text in texts for match in _JSON.finditer(text))
    folders = dict.fromkeys((project.root, program.parent if program is not None else project.root))
    for name in list(names)[:MAX_NAMED]:
        for folder in folders:
            path = folder / name
            if ".." not in path.parts and path.is_relative_to(project.root) and project.is_file(path):
                yield path
