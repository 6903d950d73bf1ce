"""Files whose findings repeat those of another file: copies of it, and files that hold the same code among other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.notebook import NotebookDocument

if TYPE_CHECKING:
    from gpulint.finding import Finding
    from gpulint.report import Result
    from gpulint.reporters import Context

PROGRAMS = (".py", ".ipynb")
_SPACES = regex.compile(r"\s+")


class Repeats:
    """File -> the file that it repeats; ``exact`` are those that are copies."""

    def __init__(self, leader_of: dict[Path, Path], exact: frozenset[Path] = frozenset()) -> None:
        self.leader_of, self._exact = leader_of, exact

    @cached_property
    def _by_leader(self) -> dict[Path, tuple[tuple[Path, ...], tuple[Path, ...]]]:
        found = defaultdict[Path, tuple[list[Path], list[Path]]](lambda: ([], []))
        for path, leader in sorted(self.leader_of.items()):
            found[leader][path not in self._exact].append(path)
        return {leader: (tuple(copies), tuple(others)) for leader, (copies, others) in found.items()}

    def of(self, path: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
        """Return the copies of a file, and the files that hold the code of its findings among other."""
        return self._by_leader.get(path, ((), ()))


def find_repeats(results: Sequence[Result], context: Context) -> Repeats:
    """Return which files repeat another one.

    That is one of no lower impact with the same findings on the same code, if both are notebooks, go by the same name,
    or are copies.
    """
    by_path = defaultdict[Path, list["Finding"]](list)
    for result in results:
        by_path[result.finding.path].append(result.finding)
    alike = defaultdict[object, list[Path]](list)
    for path, findings in by_path.items():
        lines = [_SPACES.sub(" ", context.source(path, one.span.cell).line(one.span.line)) for one in findings]
        marks = [(one.rule.code, one.message, line.strip()) for one, line in zip(findings, lines, strict=True)]
        alike[path.suffix, *marks].append(path)
    found: dict[Path, Path] = {}
    exact = set[Path]()
    for paths in alike.values():
        code = {path: _code(path, context) for path in paths} if len(paths) > 1 else {}
        leaders: list[Path] = []
        for path in sorted(paths, key=lambda path: -max(one.impact.level for one in by_path[path])):
            copied = next((one for one in leaders if code[one] == code[path]), None)
            leader = copied or next((one for one in leaders if _is_alike(one, path)), None)
            if leader is None:
                leaders.append(path)
                continue
            found[path] = leader
            if copied is not None:
                exact.add(path)
    return Repeats(found, frozenset(exact))


def _is_alike(path: Path, other: Path) -> bool:
    return (path.name == other.name and path.suffix in PROGRAMS) or path.suffix == ".ipynb"


def _code(path: Path, context: Context) -> list[str]:
    """The lines of a file, or of the code cells of a notebook, that are more than blanks or a comment."""
    document = context.project.document(path)
    if isinstance(document, NotebookDocument):
        text = "\n".join(cell.source.text for cell in document.cells if cell.kind == "code")
    else:
        text = context.source(path).text
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("# ")]
