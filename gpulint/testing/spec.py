"""Reading Markdown specs: one file per rule, one case per section, the expected findings marked on their lines.

Format::

    # GPU301 dataloader-not-pinned

    ## Bad: batches go to the GPU unpinned

    ```python train.py
    loader = DataLoader(data)  # error: [GPU301] "does not pin"
    ```

    ```python train.py fixed
    loader = DataLoader(data, pin_memory=True)
    ```

Fenced blocks with a file name make up the tree of their case. A marker ``# error: [CODE, ...] "part of the message"``
at the end of a line is taken out before the scan; ``expect: nb.ipynb:cell 1:3 [CODE]`` says the same for files that
have no comments. ``select: CODE, ...`` runs more rules than the spec's own; ``impact: low`` says what impact the
findings of a case have, ``impact: seldom`` that it is low for nothing but their kind. A block marked ``fixed`` is what
its file becomes when every fix, safe or not, is applied; it may also be a file that a fix brings. A block named
``gpulint.toml`` holds settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gpulint import regex
from gpulint.impact import Level
from gpulint.records import dataclass, field
from gpulint.selection import slug

_TITLE = regex.compile(r"# ([A-Z]+\d+) ([a-z0-9-]+)\s*$")
_FENCE = regex.compile(r"(`{3,})\s*(\S*)\s*(.*?)\s*$")
_MARKER = regex.compile(r'[ \t]*#\s*error:\s*\[([^\]]+)\](?:\s*"([^"]*)")?[ \t]*$')
_EXPECT = regex.compile(r'expect:\s*(\S+?):(?:cell (\d+):)?(\d+)\s*\[([^\]]+)\](?:\s*"([^"]*)")?\s*$')
_KINDS = ("Bad", "Good", "Silent")


class SpecError(ValueError):
    """A spec that cannot be read; the message starts with ``path:line``."""


@dataclass(frozen=True, slots=True, order=True)
class Expected:
    """A finding that a case expects."""

    file: str
    cell: int
    """-1 outside of notebooks."""
    line: int
    code: str
    message: str = ""
    """Part of the finding's message."""

    def is_met_by(self, place: Expected, message: str) -> bool:
        """Return whether a finding at ``place`` with ``message`` is the expected one."""
        mine = (self.file, self.cell, self.line, self.code)
        return mine == (place.file, place.cell, place.line, place.code) and self.message in message

    def __str__(self) -> str:
        cell = "" if self.cell < 0 else f"cell {self.cell}:"
        return f"{self.file}:{cell}{self.line} [{self.code}]" + (f' "{self.message}"' if self.message else "")


@dataclass
class Case:
    """One section of a spec."""

    spec: Path
    code: str
    name: str
    title: str
    line: int
    files: dict[str, str] = field(default_factory=dict)
    fixed: dict[str, str] = field(default_factory=dict)
    expected: list[Expected] = field(default_factory=list)
    select: list[str] = field(default_factory=list)
    impact: str = ""
    """The impact of all findings; "" for any."""

    @property
    def id(self) -> str:
        """``GPU301-bad-batches-go-to-the-gpu-unpinned``."""
        return f"{self.code}-{slug(self.title)}"

    @property
    def kind(self) -> str:
        """``Bad``, ``Good`` or ``Silent``."""
        return self.title.split(maxsplit=1)[0].rstrip(":,")


def read_all(folder: Path) -> list[Case]:
    """The cases of all specs (``gpuNNN_*.md``) below ``folder``."""
    return [case for path in sorted(folder.rglob("*.md")) if re.match(r"[a-z]+\d+_", path.name) for case in read(path)]


def read(path: Path) -> list[Case]:
    """The cases of one spec.

    Raises:
        SpecError: the file does not follow the format.
    """
    return list(_Reader(path).cases())


class _Reader:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = path.read_text(encoding="utf-8").splitlines()

    def error(self, number: int, message: str) -> SpecError:
        return SpecError(f"{self.path}:{number + 1}: {message}")

    def cases(self) -> Iterator[Case]:
        title = _TITLE.match(self.lines[0]) if self.lines else None
        if title is None:
            raise self.error(0, "the first line must be '# CODE rule-name'")
        case: Case | None = None
        titles = set[str]()
        number = 1
        while number < len(self.lines):
            line = self.lines[number]
            if line.startswith("## "):
                if case is not None:
                    yield self.complete(case)
                code, name = title.groups()
                case = Case(self.path, code, name, line[3:].strip(), number + 1, select=[code])
                if case.kind not in _KINDS:
                    raise self.error(
                        number, f"a title starts with one of {', '.join(_KINDS)} and then says what it shows"
                    )
                if case.title in titles:
                    raise self.error(number, "a case of this title exists already")
                titles.add(case.title)
            elif fence := _FENCE.match(line):
                end = self.end_of_block(number, fence.group(1))
                if fence.group(3):
                    self.block(case, number, fence.group(3), self.lines[number + 1 : end])
                number = end
            elif case is not None and line.startswith("select:"):
                case.select = [word.strip() for word in line.removeprefix("select:").split(",")]
            elif case is not None and line.startswith("impact:"):
                case.impact = line.removeprefix("impact:").strip()
                if case.impact not in (known := [*map(str, Level), "seldom"]):
                    raise self.error(number, f"an impact is one of {', '.join(known)}")
            elif case is not None and line.startswith("expect:"):
                self.expect(case, number, line)
            number += 1
        if case is not None:
            yield self.complete(case)

    def end_of_block(self, start: int, fence: str) -> int:
        for number in range(start + 1, len(self.lines)):
            if self.lines[number].rstrip() == fence:
                return number
        raise self.error(start, "this block is never closed")

    def block(self, case: Case | None, number: int, info: str, lines: list[str]) -> None:
        """Take up a fenced block that names a file."""
        name, *words = info.split()
        if case is None:
            raise self.error(number, "a file needs a '## ' section to stand in")
        if words not in ([], ["fixed"]):
            raise self.error(number, f"unknown words {' '.join(words)!r} after the file name")
        target = case.fixed if words else case.files
        if name in target or Path(name).is_absolute() or ".." in Path(name).parts:
            raise self.error(number, f"{name}: given twice, or not inside the case's folder")
        clean = []
        for index, line in enumerate(lines, 1):
            marker = None if words else _MARKER.search(line)
            if marker is not None:
                case.expected += _expected(name, None, index, marker.group(1), marker.group(2))
                line = line[: marker.start()]
            clean.append(line)
        target[name] = "".join(line + "\n" for line in clean)

    def expect(self, case: Case, number: int, line: str) -> None:
        match = _EXPECT.match(line)
        if match is None:
            raise self.error(number, "not of the form 'expect: file:line [CODE]' or 'expect: file:cell N:line [CODE]'")
        name, cell, at, codes, message = match.groups()
        case.expected += _expected(name, cell, int(at), codes, message)

    def complete(self, case: Case) -> Case:
        number = case.line - 1
        if not case.files:
            raise self.error(number, "the case has no files: a fenced block needs a file name after its language")
        for expected in case.expected:
            if expected.file not in case.files:
                raise self.error(number, f"{expected.file} is expected, but not among the files")
        if (case.kind == "Bad") != bool(case.expected):
            raise self.error(number, "a Bad case expects at least one finding, every other case none")
        return case


def _expected(name: str, cell: str | None, line: int, codes: str, message: str | None) -> list[Expected]:
    index = -1 if cell is None else int(cell)
    return [Expected(name, index, line, code.strip(), message or "") for code in codes.split(",")]
