"""The lists of packages that are nearest to a program: what it may run with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.numerals import whole
from gpulint.query import query
from gpulint.records import dataclass

if TYPE_CHECKING:
    from gpulint.project import Project

Release = tuple[int, ...]

_LISTS = regex.compile(
    r"(?:[\w-]*requirements?[\w-]*\.txt|[\w-]*(?:env|conda)[\w-]*\.ya?ml|setup\.(?:py|cfg)|pyproject\.toml|Pipfile"
    r"|constraints[\w-]*\.txt|Dockerfile[\w.-]*)",
    re.IGNORECASE,
)
_LOCKS = regex.compile(r"(?:poetry|uv|pdm)\.lock|Pipfile\.lock", re.IGNORECASE)
_YAML = regex.compile(r"[\w-]+\.ya?ml", re.IGNORECASE)
_CONDA = regex.compile(r"^dependencies:\s*$", re.MULTILINE)
_SCRIPTS = regex.compile(r"README[\w.-]*|INSTALL[\w.-]*|[\w-]+\.(?:sh|sbatch|slurm)", re.IGNORECASE)
"""Files whose install lines say what a program runs with where no list does."""
_BUILDS = regex.compile(
    r"\.?(dev)?(docker|container)(s|files?)?|requirements?|(conda[-_]?)?(envs?|environments?)|installation",
    re.IGNORECASE,
)
"""Folders of files that build what programs run in: ``docker/Dockerfile``, ``requirements/base.txt``."""
_MOST_LISTS = 12
_MOST_YAML = 12
_LEAST = r"(?:\[[\w,-]+\])?[\"' ]*(?:===?|~=|>=|=)[\"' ]*[\^~v]?(?P<release>\d+(?:\.\d+)*)"
"""``==2.3``, ``>=2.3``, ``~=2.3``, conda's ``=2.3``, Poetry's ``= "^2.3"``: no older release is allowed."""


def lists_above(project: Project, path: Path) -> Iterator[tuple[Path, ...]]:
    """The lists of packages in each folder above a file, the nearest ones first."""
    for folder in path.parents:
        if found := _lists(project, folder):
            yield found
        if folder == project.root:
            return


def requires(project: Project, path: Path, packages: tuple[str, ...], least: Release) -> bool:
    """Return whether the nearest lists of packages that name one of ``packages`` allow no release before ``least``."""
    for found in lists_above(project, path):
        releases = [release for one in found for release in _oldest(project, one, packages)]
        if releases:
            return min(releases) >= least
    return False


def may_be_too_old(project: Project, path: Path, packages: tuple[str, ...], since: Release) -> bool:
    """Return whether the nearest lists of packages with a bound on one of ``packages`` allow a release before
    ``since``."""
    for found in lists_above(project, path):
        releases = [release for one in found for release in _oldest(project, one, packages) if release]
        if releases:
            return min(releases) < since
    return False


def is_too_old(project: Project, path: Path, packages: tuple[str, ...], since: Release) -> str | None:
    """Return the bound (``torch==1.3.0``) of a list or install line nearest to a file that allows no release from
    ``since`` on; in a folder, lists come before texts, and these before what is in a folder for builds."""
    for folder in path.parents:
        for files in (_lists(project, folder), _others(project, folder), _in_builds(project, folder)):
            bounds = [bound for one in files for bound in _bounds(project, one, packages)]
            if bounds:
                return next((bound.shown for bound in bounds if not bound.allows(since)), None)
        if folder == project.root:
            break
    return None


@query
def _lists(project: Project, folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder / name for name in project.entries(folder) if _LISTS.fullmatch(name)))


@query
def _others(project: Project, folder: Path) -> tuple[Path, ...]:
    """Lock files, environments of conda by another name, and texts with install lines in a folder."""
    names = sorted(project.entries(folder))
    locked = [folder / name for name in names if _LOCKS.fullmatch(name)]
    yaml = [folder / name for name in names if _YAML.fullmatch(name) and not _LISTS.fullmatch(name)]
    conda = [path for path in yaml if regex.occurs(_CONDA, _text(project, path))] if len(yaml) <= _MOST_YAML else []
    scripts = [folder / name for name in names if _SCRIPTS.fullmatch(name)]
    return tuple(path for path in (*locked, *conda, *scripts) if project.is_file(path))


@query
def _in_builds(project: Project, folder: Path) -> tuple[Path, ...]:
    """Lists of packages in the folders of a folder that are for builds."""
    builds = sorted(folder / name for name in project.entries(folder) if _BUILDS.fullmatch(name))
    found = [
        build / name
        for build in builds
        if project.is_dir(build)
        for name in sorted(project.entries(build))
        if _LISTS.fullmatch(name) or (name.endswith((".txt", ".yml", ".yaml")) and "require" in build.name.lower())
    ]
    return tuple(path for path in found[:_MOST_LISTS] if project.is_file(path))


def _text(project: Project, path: Path) -> str:
    return project.data(path).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Bound:
    """What a list says of the newest release of a package."""

    shown: str
    how: str
    release: Release

    def allows(self, since: Release) -> bool:
        """Return whether ``since`` or a newer release is allowed."""
        release, any_more = self.release, (_ANY,)
        match self.how:
            case "<":
                return release > since
            case "~=":
                release = release[:-1] or release
            case "^":
                release = release[:1] if release[0] else release[:2]
            case "~":
                release = release[:2]
        return (*release, *any_more) >= since


_ANY = 10**9
"""A part of a release that nothing bounds."""
_SPECIFIER = r"(?P<how>===?|~=|<=|<|=|\^|~)\s*v?(?P<release>\d+(?:\.\d+)*)"
_NEXT = re.compile(rf"[\s,]*(?:[>!]=?\s*[\w.*]+\s*,\s*)*{_SPECIFIER}")


@query
def _bounds(project: Project, path: Path, packages: tuple[str, ...]) -> tuple[_Bound, ...]:
    """The upper bounds of packages in a list."""
    text, found = _text(project, path), list[_Bound]()
    for package in packages:
        name = re.escape(package)
        pins = [
            *re.finditer(
                rf"(?<![\w./-]){name}(?:\[[\w,-]+\])?[\"']?[ \t]*(?=[=<>~!^])(?:=[ \t]*[\"'](?=[\d^~<>=]))?", text
            ),
            *re.finditer(
                rf"(?:^FROM\s+|image:\s*|--(?:container|image)[= ]\s*[\"']?)\S{{0,200}}/{name}(?=:\d)",
                text,
                re.MULTILINE,
            ),
        ]
        for pin in pins:
            rest = text[pin.end() : pin.end() + 60].split("\n")[0]
            if rest.startswith(":"):
                rest = "==" + rest[1:]
            elif pin[0].endswith(("'", '"')) and rest[:1].isdigit():
                rest = "==" + rest  # Poetry's and Pipenv's tables
            if bound := _NEXT.match(rest):
                parts = tuple(int(part) for part in bound["release"].split("."))
                found.append(_Bound(f"{package}{bound['how']}{bound['release']}", bound["how"], parts))
        for lock in re.finditer(rf"name = \"{name}\"\nversion = \"(\d+(?:\.\d+)*)", text):
            parts = tuple(part for digits in lock[1].split(".") if (part := whole(digits)) is not None)
            found.append(_Bound(f"{package}=={lock[1]}", "==", parts))
    return tuple(found)


@query
def _oldest(project: Project, path: Path, packages: tuple[str, ...]) -> tuple[Release, ...]:
    """The oldest releases of packages that the lines of a list allow; the empty one where a line sets no bound."""
    text = _text(project, path)
    found = list[Release]()
    for package in packages:
        for named in re.finditer(rf"(?<![\w./-]){re.escape(package)}(?![\w-])(?:{_LEAST})?", text):
            parts = [whole(part) for part in (named["release"] or "").split(".")]
            found.append(tuple(part for part in parts if part is not None))
    return tuple(found)
