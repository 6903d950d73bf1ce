"""Tables over the whole tree, kept module by module, so that a change of one module concerns few others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from gpulint.peers import in_turn
from gpulint.query import query, stored

if TYPE_CHECKING:
    from gpulint.project import Project

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Home = Path | str
"""What rows are looked up by first: the file of what a key stands for, or a name."""


class Spread(Generic[K, V]):
    """A table whose rows come from many modules.

    Which modules have rows for a home is plain data, so that whoever looks something up rests on these modules alone,
    and on the others as far as they have none.
    """

    def __init__(
        self,
        module: str,
        name: str,
        rows: Callable[[Project, Path], Iterable[tuple[Home, K, V]]],
        files: Callable[[Project], tuple[Path, ...]] | None = None,
    ) -> None:
        """Name a table that ``module`` makes.

        ``rows`` are those of one file, (home, key, value), of ``files`` (training modules, by default).
        """

        @query
        def table(project: Project, path: Path) -> dict[tuple[Home, K], list[V]]:
            found: dict[tuple[Home, K], list[V]] = {}
            with project.containing(path, name):
                for home, key, value in rows(project, path):
                    found.setdefault((home, key), []).append(value)
            return found

        @stored(f"{name}: homes", module)
        def homes(project: Project, path: Path) -> tuple[Home, ...]:
            return tuple(dict.fromkeys(home for home, _ in table(project, path)))

        @stored(f"{name}: modules", module)
        def modules(project: Project) -> tuple[tuple[Home, tuple[Path, ...]], ...]:
            found: dict[Home, list[Path]] = {}
            paths = files(project) if files is not None else project.training_files()
            for path in in_turn(project.db.peers, paths):
                homes(project, path)
            for path in paths:
                for home in homes(project, path):
                    found.setdefault(home, []).append(path)
            return tuple((home, tuple(paths)) for home, paths in found.items())

        @query
        def by_home(project: Project) -> dict[Home, tuple[Path, ...]]:
            return dict(modules(project))

        @stored(f"{name}: modules of a home", module)
        def modules_of(project: Project, home: Home) -> tuple[Path, ...]:
            return by_home(project).get(home, ())

        self._table, self._modules_of = table, modules_of

    def find(self, project: Project, home: Home, key: K) -> list[V]:
        """The rows of a key, in the order of the files that they come from."""
        return [
            value
            for path in self._modules_of(project, home)
            for value in self._table(project, path).get((home, key), ())
        ]

    def homed(self, project: Project, home: Home) -> Iterator[tuple[K, V]]:
        """All rows of a home."""
        for path in self._modules_of(project, home):
            for (other, key), values in self._table(project, path).items():
                if other == home:
                    yield from ((key, value) for value in values)
