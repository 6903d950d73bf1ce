"""What the command of a launch says, and the configuration files that it names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.base import Unreadable, decode

if TYPE_CHECKING:
    import re

    from gpulint.launch.job import JobLaunch
    from gpulint.project import Project

MAX_BYTES = 200_000
"""Largest file that is read; larger ones hold data."""
_CHOICE = regex.compile(r"[\w/]+=[\w-]+")
_COMMENT = regex.compile(r"(?m)(?:^|\s)#.*$")
_SUFFIXES = (".yaml", ".yml", ".json", ".toml")


def says(project: Project, start: JobLaunch, pattern: re.Pattern[str]) -> bool:
    """Return whether a pattern matches in the arguments of a launch, or in a configuration file that one names."""
    return any(map(pattern.search, told(project, start)))


def told(project: Project, start: JobLaunch) -> Iterator[str]:
    """Yield the arguments of a launch, and the texts without comments of the configuration files that they name: from
    the folder of the launcher or the program or the root of the tree, or as the choice of a Hydra group
    (``model=split``)."""
    yield " ".join(word.text for word in start.launch.args)
    values = [word.value or "" for word in start.launch.args]
    folders = [start.document.path.parent, project.root]
    folders += [start.program.parent] if start.program is not None else []
    names = [name for value in values if (name := value.rpartition("=")[2]).endswith(_SUFFIXES)]
    files = [path for name in names for folder in folders if project.is_file(path := folder / name)]
    chosen = tuple(f"/{value.replace('=', '/')}.yaml" for value in values if _CHOICE.fullmatch(value))
    files += [path for path in project.files if chosen and path.as_posix().endswith(chosen)]
    for path in dict.fromkeys(files):
        data = project.data(path)
        if len(data) <= MAX_BYTES:
            with suppress(Unreadable):
                yield _COMMENT.sub("", decode(data)[0])
