"""What the command of a launch says, and the configuration files that it names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulint.launch.job import JobLaunch
    from gpulint.project import Project

_SUFFIXES = (".yaml", ".yml", ".json", ".toml")


def says(project: Project, start: JobLaunch, pattern: re.Pattern[str]) -> bool:
    """Return whether a pattern matches in an argument of a launch, or in a configuration file that one names from the
    launcher's folder or the root of the tree."""
    if any(pattern.search(word.text) for word in start.launch.args):
        return True
    words = [(word.value or "").rpartition("=")[2] for word in start.launch.args]
    folders = (start.document.path.parent, project.root)
    named = (folder / word for word in words if word.endswith(_SUFFIXES) for folder in folders)
    return any(
        project.is_file(path) and pattern.search(project.data(path).decode("utf-8", "replace")) for path in named
    )
