"""Settings of a file of defaults (``configs/default.yaml``) that the other files of its folder set otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.finding import Place
from gpulint.query import query
from gpulint.values.constants import Constants, Value

if TYPE_CHECKING:
    from gpulint.project import Project

_DEFAULTS = regex.compile(r"(^|[_-])(defaults?|base)([_-]|$)")
_KINDS = frozenset({".yaml", ".yml", ".json"})
MAX_FILES = 200
"""Most files of a folder that are read."""


def with_others(project: Project, values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return values, for each of a file of defaults those that the other files below its folder set instead, and itself
    only if one of them leaves it as it is."""
    return tuple(one for value in values for one in (_others(project, value) or (value,)))


def _others(project: Project, value: Value) -> tuple[Value, ...]:
    configs, path = project.fact(Constants).configs, value.place.path
    if value.source != "config" or path.suffix not in _KINDS or not _DEFAULTS.search(path.stem):
        return ()
    own = configs.read(path)
    key = next((name for name, (_, span) in own.items() if span == value.place.span), "")
    files = _beside(project, path)
    if not key or not 0 < len(files) <= MAX_FILES or _is_option(project, path):
        return ()
    # Files that share no section with the defaults are no configurations of the program.
    sections = {name.partition(".")[0] for name in own}
    read = ((one, configs.read(one)) for one in files)
    found = [(one, held.get(key)) for one, held in read if sections & {name.partition(".")[0] for name in held}]
    set_there = [Value(held[0], Place(one, held[1], "set here"), "config") for one, held in found if held is not None]
    return (*set_there, *([value] if len(set_there) < len(found) else ()))


@query
def _beside(project: Project, path: Path) -> tuple[Path, ...]:
    """Return the other configuration files below the folder of a file of defaults."""
    return tuple(
        one
        for one in project.files
        if one.suffix in _KINDS and one != path and one.is_relative_to(path.parent) and not _DEFAULTS.search(one.stem)
    )


@query
def _is_option(project: Project, path: Path) -> bool:
    """Return whether a file may be an option of a group of Hydra's, which others replace only where they are chosen."""
    above = (one for one in project.files if one.suffix in _KINDS and one.parent in (path.parent, path.parent.parent))
    configs = project.fact(Constants).configs
    return any(name.startswith("defaults.") for one in above for name in configs.read(one))
