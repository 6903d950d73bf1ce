"""Packages that a command installs, listed in the conda file from which a system makes the environment instead."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from pathlib import Path

from gpulint import regex
from gpulint.documents import Document
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.source import SourceText, Span

_LIST = regex.compile(r"( *)- pip: *(?:#.*)?")
_ITEM = regex.compile(r"( *)- +(\S.*)")
_PLAIN = regex.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w,-]+\])?(?:[=<>~!]=?[\w.,=<>~!*]+)?")
"""A requirement without spaces, as it is written in a list: ``torch``, ``lightning[extra]==2.4``."""
_BARE = regex.compile(r"[A-Za-z0-9][\w.-]*")
_NAMED = regex.compile(r"^ *- *[\"']?([A-Za-z0-9][^\s\"'#]*)", re.MULTILINE)
_QUIET = frozenset({"-q", "-U", "--quiet", "--upgrade", "--no-cache-dir", "--user"})
"""Options that say nothing about which packages are meant."""


def listed(
    project: Project, document: Document, file: str, commands: Sequence[Sequence[str]], edits: Sequence[Edit]
) -> Fix | Declined:
    """Add what ``commands`` of pip install to a conda file; ``edits`` take them out of the job."""
    named = f"`{file}`" if file else "the job file"
    elsewhere = f"the commands run in an environment made from {named}, without the image's packages: list them there"
    path = Path(posixpath.normpath(document.path.parent / file))
    names = [name for words in commands for name in _names(words)]
    if not file or not path.is_relative_to(project.root) or path not in project.files or "" in names:
        return Declined(elsewhere)
    source = SourceText(project.data(path).decode(errors="replace"))
    place, there = _end_of_list(source), {_distribution(name): name for name in _NAMED.findall(source.text)}
    others = [name for name in dict.fromkeys(names) if there.get(_distribution(name), name) != name]
    if place is None or any(not _BARE.fullmatch(name) for name in others):
        return Declined(elsewhere)
    line, indent = place
    text = "".join(f"\n{indent}- {name}" for name in dict.fromkeys(names) if _distribution(name) not in there)
    end = len(source.line(line)) + 1
    where = path.relative_to(project.root)
    return Fix(
        f"list the packages in {where}, from which the job's environment is made once for all runs",
        Safety.UNSAFE,
        (*edits, Edit(path, Span(line, end, line, end), text)),
    )


def _distribution(name: str) -> str:
    return re.sub(r"[._-]+", "-", _BARE.match(name)[0]).lower()  # type: ignore[index]


def _names(words: Sequence[str]) -> list[str]:
    """The packages of ``pip install a b``; an empty one where anything else is installed."""
    at = next((at for at, word in enumerate(words) if word == "install"), len(words))
    tool = words[0].rpartition("/")[2] if words else ""
    if not tool.startswith("pip") or at == len(words):
        return [""]
    given = [word for word in words[at + 1 :] if word not in _QUIET]
    return [word if _PLAIN.fullmatch(word) else "" for word in given]


def _end_of_list(source: SourceText) -> tuple[int, str] | None:
    """The last line of the only list of packages for pip, and the indentation of its items."""
    lines = [source.line(number) for number in range(1, len(source.line_starts) + 1)]
    heads = [(number, found[1]) for number, line in enumerate(lines, 1) if (found := _LIST.fullmatch(line.rstrip()))]
    if len(heads) != 1 or "\r" in source.text or "\t" in source.text:
        return None
    number, outer = heads[0]
    last, inner = 0, ""
    for at in range(number + 1, len(lines) + 1):
        line = lines[at - 1]
        found = _ITEM.fullmatch(line.rstrip())
        if found is not None and len(found[1]) > len(outer) and (not inner or found[1] == inner):
            last, inner = at, found[1]
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return (last, inner) if last else None
