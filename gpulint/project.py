"""The project: the documents of one tree, and what is known of them beyond single files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from gpulint.query import lookup
from gpulint.workspace.tree import Tree

if TYPE_CHECKING:
    from gpulint.config import Config
    from gpulint.estimates import BatchSizes, Estimates

F = TypeVar("F")


class Project(Tree):
    """A tree, and one instance of each class that answers questions about it."""

    def __init__(self, root: Path, files: Sequence[Path], config: Config) -> None:
        super().__init__(root, files, config)
        self._facts: dict[Callable[[Project], Any], Any] = {}
        self.estimates: Estimates | None = None
        """Batch sizes that fit, if the user asked for them to be estimated."""
        self.rule_names: frozenset[str] = frozenset()
        """Codes and names of all rules, whether they run or not; empty where suppressions are not checked for them."""

    def fact(self, kind: Callable[[Project], F]) -> F:
        """The project's one instance of a class such as ``Constants``, made when it is first asked for."""
        found = self._facts.get(kind)
        if found is None:
            found = self._facts[kind] = kind(self)
        return cast(F, found)

    def successor(
        self, changed: Iterable[Path], files: Sequence[Path] | None = None, config: Config | None = None
    ) -> Self:
        """As for a tree; estimates are kept."""
        project = super().successor(changed, files, config)
        project.estimates = self.estimates
        project.rule_names = self.rule_names
        return project

    def revise(self, texts: Mapping[Path, bytes | None]) -> None:
        """Go on with other contents of files that exist (see :mod:`gpulint.workspace.revision`). Classes that answer
        queries get new instances, as theirs may hold more than queries know."""
        from gpulint.workspace.revision import revise

        self._facts, self._failures = {}, {}
        revise(self, texts)

    def matches(self, path: Path, pattern: re.Pattern[str]) -> bool:
        """Return whether there is a match in a file's Python. What rests on that stays valid while the answer is the
        same, whatever else changes in the file."""
        return self._matches(path, pattern.pattern, pattern.flags)

    @lookup("matches")
    def _matches(self, path: Path, pattern: str, flags: int) -> bool:
        return re.compile(pattern, flags).search(self.python_text(path)) is not None

    def batch_that_fits(self, path: Path) -> BatchSizes | None:
        """Return what fits the program of ``path``; None if nobody asked, or for another program."""
        return self.estimates.of(self, path) if self.estimates is not None else None
