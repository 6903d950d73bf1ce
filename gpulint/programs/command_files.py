"""What the command of a launch says, and the configuration files that it names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex

if TYPE_CHECKING:
    from gpulint.launch.job import JobLaunch
    from gpulint.project import Project

_CHOICE = regex.compile(r"[\w/]+=[\w-]+")
_SUFFIXES = (".yaml", ".yml", ".json", ".toml")


def says(project: Project, start: JobLaunch, pattern: re.Pattern[str]) -> bool:
    """Return whether a pattern matches in an argument of a launch, or in a configuration file that one names: from the
    launcher's folder or the root of the tree, or as the choice of a Hydra group (``model=split``)."""
    if any(pattern.search(word.text) for word in start.launch.args):
        return True
    values = [word.value or "" for word in start.launch.args]
    folders = (start.document.path.parent, project.root)
    files = [
        folder / name
        for name in (value.rpartition("=")[2] for value in values)
        if name.endswith(_SUFFIXES)
        for folder in folders
    ]
    chosen = {f"/{value.replace('=', '/')}.yaml" for value in values if _CHOICE.fullmatch(value)}
    files += [path for path in project.files if chosen and path.as_posix().endswith(tuple(chosen))]
    return any(
        project.is_file(path) and pattern.search(project.data(path).decode("utf-8", "replace")) for path in files
    )
