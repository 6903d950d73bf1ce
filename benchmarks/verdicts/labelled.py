"""The labels as they are kept on disk, and findings in the same terms."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SETS = sorted(folder.parent.name for folder in HERE.glob("*/labels.jsonl"))
TOLERANCE = 3
"""Lines that a finding may lie away from a label."""


@dataclass(frozen=True)
class Place:
    """A line of a file; lines count from 1 within a notebook's cell, and cells count from 0."""

    repository: str
    path: str
    cell: int | None
    line: int

    def gap(self, other: Place) -> int | None:
        """Lines between two places of the same file and cell, or None if they are elsewhere."""
        mine = (self.repository, self.path, self.cell)
        return abs(self.line - other.line) if mine == (other.repository, other.path, other.cell) else None

    def __str__(self) -> str:
        cell = "" if self.cell is None else f"cell {self.cell}:"
        return f"{self.repository}/{self.path}:{cell}{self.line}"


@dataclass(frozen=True)
class Finding:
    """What gpulint reported, with the slugs of the problems that its code stands for (none: not labelled here)."""

    place: Place
    code: str
    message: str
    slugs: tuple[str, ...]


@dataclass(frozen=True)
class Label:
    """What a reader wrote about one place."""

    place: Place
    slug: str
    verdict: str
    """``issue``, or ``trap``: a finding there is wrong."""
    why: str
    unsure: bool = False
    places: tuple[Place, ...] = ()
    """Every place at which the problem may be reported, its own first."""
    elsewhere: bool = False
    """Some of the places are in other files, or are a second place of the same problem."""
    other_slugs: frozenset[str] = frozenset()
    needs: str = ""


@dataclass(frozen=True)
class LabelSet:
    """Files that were read whole, and the labels in them."""

    name: str
    commits: dict[str, str]
    """By repository."""
    files: frozenset[tuple[str, str]]
    labels: tuple[Label, ...]


def load(name: str) -> LabelSet:
    """Read one set of labels."""
    files = list(_rows(HERE / name / "files.jsonl"))
    return LabelSet(
        name,
        {row["repo"]: row["commit"] for row in files},
        frozenset((row["repo"], row["path"]) for row in files),
        tuple(_label(row) for row in _rows(HERE / name / "labels.jsonl")),
    )


def findings(report: Iterable[dict[str, Any]]) -> list[Finding]:
    """Findings of a JSON report over checkouts that are called ``owner+name``; others are left out."""
    found = []
    for row in report:
        parts = row["path"].split("/")
        at = next((number for number, part in enumerate(parts) if "+" in part), None)
        if at is not None:
            repository, path = parts[at].replace("+", "/", 1), "/".join(parts[at + 1 :])
            place = Place(repository, path, row["cell"], row["line"])
            found.append(Finding(place, row["code"], row["message"], tuple(slugs().get(row["code"], ()))))
    return found


@cache
def slugs() -> dict[str, list[str]]:
    """Slugs of the problems that each code reports; codes that report more than was labelled are missing."""
    table: dict[str, list[str]] = json.loads((HERE / "slugs.json").read_text(encoding="utf-8"))
    return table


def _rows(path: Path) -> Iterable[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _label(row: dict[str, Any]) -> Label:
    repository, path, cell = row["repo"], row["path"], row.get("cell")
    own = [(cell, row["line"] if cell is None else row["cell_line"])]
    own += [(None, line) for line in row.get("alt_lines", ())]
    own += [(other, line) for other, line in row.get("alt_cell_lines", ())]
    places = [Place(repository, path, *spot) for spot in own]
    for also in row.get("also", ()):
        other, _, line = also.rpartition(":")
        places.append(Place(repository, other, None, int(line)))
    return Label(
        places[0],
        row["slug"],
        row["verdict"],
        row["why"],
        row.get("unsure", False),
        tuple(places),
        "also" in row,
        frozenset(row.get("alt_slugs", ())),
        row.get("needs", ""),
    )
