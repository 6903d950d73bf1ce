"""What the documentation of a tree and comments in its settings say of loaders without workers, and of the processes
that a program starts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import reasons, regex
from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.project import Project

_TEXTS = regex.compile(r"README[\w.-]*|[\w.-]+\.(?:md|rst)", re.IGNORECASE)
_NONE = regex.compile(r"\bnum[_-]?workers\W{1,8}(?:(?:is|to|of|set)\W{1,4}){0,2}0(?![\w.])", re.IGNORECASE)
_REASON = regex.compile(
    r"shared.?memory|(?<!pin[-_ ])\bmemory|\bram\b|\bshm\b|bus error|deadlock|\bhang(s|ing)?\b|\bhung\b|crash|segfault"
    r"|freez|too many open files|\bfork|pickl|\bhdf5\b|\bh5py\b|\blmdb\b|\bsqlite|\bzarr\b|\bwindows\b|\bmac ?os\b",
    re.IGNORECASE,
)
_SAID_BESIDE = regex.compile(
    r"^[ \t]*#[^\n]{0,80}\bnum_workers[ \t]*=[ \t]*0\b[^\n]{0,120}"
    r"\b(?:required|needed|to avoid|avoids?|prevents?|because|due to|otherwise)\b[^\n]{0,80}"
    r"\b(?:crash\w*|deadlock\w*|hangs?|hanging|segfaults?|freez\w+|bus error|shared memory|too many open files)",
    re.MULTILINE | re.IGNORECASE,
)
"""A comment of a program beside others that says why there are no workers on its machine."""
_IF = regex.compile(r"\b(?:if|when|in case|try)\b", re.IGNORECASE)
"""Words of advice for machines on which something goes wrong."""
_COMMAND = regex.compile(r"\s--?[a-z][^\n]{0,300}\s--?[a-z]", re.IGNORECASE)
"""A line with several options; the names of its files give no reasons."""
_STARTS = regex.compile(r"\b(?:python[\d.]*|torchrun|accelerate|deepspeed|srun|ipython)\b")
"""Commands that start programs."""
_MAX_LINES = 50
"""Most lines of a command that backslashes continue."""
_FILES = frozenset({".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf"})
_SET = regex.compile(r"[\s-]*(?:num[_-]?|n[_-]?|\w*loader_num_)?workers[\"']?\s*[:=]\s*(?:0\s*#(.*)|\d)", re.IGNORECASE)
_HELD = regex.compile(r"\bram\b|in[- ]memory|pre-?load", re.IGNORECASE)
"""Words of what workers could not help with."""
_MOST, _LARGEST = 300, 100_000
"""Most files of settings that are read, and the bytes of the largest one."""


def documented_reason(project: Project, path: Path) -> str:
    """Return the line (``README.md:12``) in a folder above a program that says why its loaders have no workers, or of
    the settings nearest to it (``config/large.yaml:7``); empty if there is none."""
    for folder in path.parents:
        if found := _reason_in(project, folder):
            return found
        if folder == project.root:
            break
    return _reason_of_settings(project, path)


def _reason_of_settings(project: Project, path: Path) -> str:
    """Return the line of the settings beside a file, or else of those in the nearest folder above it that has any, with
    a comment that says why it names no workers."""
    lines = _settings(project)
    for folder in path.parents:
        near = [one for one in lines if one[0].is_relative_to(folder)]
        if near or folder == project.root:
            said = (one for one in near if _says_why(one[2], beside=one[0].parent == path.parent))
            return next((f"{at.relative_to(project.root).as_posix()}:{number}" for at, number, _ in said), "")
    return ""


def _says_why(comment: str, *, beside: bool) -> bool:
    return reasons.says_why(comment) or reasons.names_trouble(comment) or (beside and _HELD.search(comment) is not None)


@query
def _settings(project: Project) -> list[tuple[Path, int, str]]:
    """Return the lines of settings files that set a number of workers, and the comment behind a 0."""
    found = list[tuple[Path, int, str]]()
    files = [path for path in project.files if path.suffix in _FILES and not project.is_test(path)]
    for path in files[:_MOST]:
        data = project.data(path)
        if len(data) > _LARGEST or b"workers" not in data:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            if (setting := _SET.match(line)) is not None:
                found.append((path, number, setting[1] or ""))
    return found


def documented_count(project: Project, path: Path, option: str) -> str:
    """Return the line in a folder above a program that passes an option with a number above 1 (``--num_workers 4``);
    empty if there is none."""
    for folder in path.parents:
        if found := _option_in(project, folder, option):
            return found
        if folder == project.root:
            break
    return ""


@query
def _option_in(project: Project, folder: Path, option: str) -> str:
    passed = re.compile(rf"--{re.escape(option).replace('_', '[-_]')}[ =]\s{{0,9}}(?:[2-9]|[1-9]\d)\d{{0,7}}(?![\w.])")
    for name, text in _texts(project, folder):
        for number, line in enumerate(text.splitlines(), 1):
            if passed.search(line):
                return f"{(folder / name).relative_to(project.root).as_posix()}:{number}"
    return ""


@query
def documented_zero(project: Project, program: Path, option: str) -> tuple[Path, int] | None:
    """Return the file and the line in a folder above a program that passes 0 for an option, if all commands there that
    start the program do; None if there is none, or one leaves the default in force."""
    passed = re.compile(rf"--{re.escape(option).replace('_', '[-_]')}[ =]\s{{0,9}}(\d{{1,9}})(?![\w.])")
    found = list[tuple[Path, int]]()
    for folder in program.parents:
        for name, text in _texts(project, folder):
            for start, lines in _commands(text, program.name):
                given = ((start + at, match) for at, line in enumerate(lines) if (match := passed.search(line)))
                number, match = next(given, (0, None))
                if match is None or int(match[1]):
                    return None
                found.append((folder / name, number))
        if folder == project.root:
            break
    return found[0] if found else None


def _commands(text: str, program: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the commands of a text that start a program: the number of the first line, and the lines."""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if program not in line or _STARTS.search(line) is None or not _is_named(line, program):
            continue
        end, last = number, min(len(lines), number + _MAX_LINES)
        while end < last and lines[end - 1].rstrip().endswith("\\"):
            end += 1
        yield number, lines[number - 1 : end]


def _is_named(line: str, program: str) -> bool:
    """Return whether a word of a line is a program, perhaps in a folder."""
    return any(word.strip("`$\"'").rpartition("/")[2] == program for word in line.split())


def _texts(project: Project, folder: Path) -> Iterator[tuple[str, str]]:
    for name in sorted(project.entries(folder)):
        if _TEXTS.fullmatch(name) and project.is_file(folder / name):
            yield name, project.data(folder / name).decode("utf-8", "replace")


@query
def _reason_in(project: Project, folder: Path) -> str:
    for name, text in _texts(project, folder):
        if _NONE.search(text) is None:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if _NONE.search(line) and _REASON.search(line) and not (_IF.search(line) or _COMMAND.search(line)):
                return f"{(folder / name).relative_to(project.root).as_posix()}:{number}"
    return next((path.name for path in _programs_in(project, folder) if project.matches(path, _SAID_BESIDE)), "")


def _programs_in(project: Project, folder: Path) -> Iterator[Path]:
    """Yield the programs and notebooks in a folder that name a number of workers."""
    named = (path for path in project.python_files_with(b"num_workers") if path.parent == folder)
    yield from islice(named, _MOST)
