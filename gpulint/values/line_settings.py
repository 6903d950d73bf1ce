"""Settings in files of another format than YAML and JSON, with one in each line: TOML, INI, Gin, flag files."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.project import Project

_SUFFIXES = (".toml", ".ini", ".cfg", ".conf", ".gin", ".txt", ".flags")
_FOLDER = regex.compile(r"conf|gin|flag|setting|param|exper|option", re.IGNORECASE)
"""Names of folders that may hold nothing but such files."""
_NOTHING = frozenset({"", "0", "false", "none", "null"})
_FLAGS = (".txt", ".flags")
"""Files with an option in each line (``--num_workers=8``)."""
_MAX_FILES = 200
_MAX_BYTES = 100_000


@query
def line_settings(project: Project, name: str) -> tuple[bool, ...]:
    """Return whether a name is set to something, for each line that sets it (``num_workers = 8``,
    ``make_loader.num_workers = 8``, ``--num_workers=8``)."""
    line = re.compile(
        rf"^[ \t]*(?P<option>--)?(?:[\w./@-]{{0,100}}[./])?{re.escape(name)}[ \t]*=[ \t]*[\"']?(?P<value>[^\s\"'#;]*)",
        re.MULTILINE,
    )
    found = list[bool]()
    for path in _files(project):
        text = project.data(path)[:_MAX_BYTES].decode("utf-8", "replace")
        if name in text:
            flags = path.suffix in _FLAGS
            settings = (match for match in line.finditer(text) if match["option"] or not flags)
            found += [match["value"].lower() not in _NOTHING for match in settings]
    return tuple(found)


@query
def _files(project: Project) -> tuple[Path, ...]:
    known = {project.root, *(path.parent for path in project.files)}
    inner = (folder / name for folder in sorted(known) for name in project.entries(folder) if _FOLDER.search(name))
    folders = sorted(known | {path for path in inner if "." not in path.name})
    found = (folder / name for folder in folders for name in sorted(project.entries(folder)))
    files = (path for path in found if path.suffix in _SUFFIXES and project.is_file(path) and not project.is_test(path))
    return tuple(islice(files, _MAX_FILES))
