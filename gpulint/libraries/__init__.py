"""What gpulint knows of libraries, launchers and job formats: rows of TOML, each kind with a schema and a reader.

The rows of this package come first; a user's settings and plugins add theirs. A file is read when a kind in it is
first needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

Row = TypeVar("Row")
Made = TypeVar("Made")

FILES = {
    "format": "jobs",
    "split": "jobs",
    "library": "programs",
    "spawner": "programs",
    "launcher": "launchers",
    "scheduler": "schedulers",
    **dict.fromkeys(
        (
            "gpu-program",
            "cpu-program",
            "task-runner",
            "copier",
            "installer",
            "downloader",
            "hub-program",
            "submitter",
            "job-starter",
        ),
        "commands",
    ),
    **dict.fromkeys(
        (
            "download",
            "cached-download",
            "auxiliary-heads",
            "layers-without-weights",
            "hub-download",
            "hub-alias",
            "sdk-download",
            "data-sets",
            "upload",
            "saver",
            "collective",
            "sync",
            "host-result",
            "reader",
            "handle",
            "data-cache",
            "sample-work",
            "sample-set",
            "large-model",
        ),
        "operations",
    ),
    **dict.fromkeys(
        ("loader", "batch-maker", "mover", "hook", "stream", "gradient-free", "eager-framework"), "frameworks"
    ),
    **dict.fromkeys(("new-api", "own-random-state"), "releases"),
    "reason-words": "comments",
}
"""The module and TOML file of each kind of rows."""


class Models:
    """The rows of gpulint and, before them, those of a user and of plugins."""

    def __init__(self, extra: Mapping[str, tuple[Any, ...]] | None = None) -> None:
        self.extra = dict(extra or {})
        self._rows: dict[str, tuple[Any, ...]] = {}
        self._derived: dict[object, Any] = {}

    def rows(self, kind: str) -> tuple[Any, ...]:
        """The rows of one kind, in the order in which they are tried."""
        if kind not in self._rows:
            self._rows[kind] = (*self.extra.get(kind, ()), *_own(kind))
        return self._rows[kind]

    def added_words(self, kinds: tuple[str, ...]) -> frozenset[str]:
        """Words of the rows that gpulint does not have itself: a file that they are about has one of them."""
        if not self.extra:
            return frozenset()
        return frozenset(word for kind in kinds for row in self.extra.get(kind, ()) for word in row.words)

    def derived(self, make: Callable[[Models], Made]) -> Made:
        """Return what ``make`` makes of these rows, made once."""
        if make not in self._derived:
            self._derived[make] = make(self)
        found: Made = self._derived[make]
        return found


BUILT_IN = Models()
"""The rows of gpulint alone."""


def gate_words(*kinds: str) -> tuple[str, ...]:
    """Words of gpulint's own rows, for the tokens of a rule; those that contain another are left out."""
    found = sorted({word for kind in kinds for row in BUILT_IN.rows(kind) for word in row.words}, key=len)
    kept: list[str] = []
    for word in found:
        if not any(other in word for other in kept):
            kept.append(word)
    return tuple(sorted(kept))


def kind_of_rows(kind: str) -> type[Any]:
    """The dataclass of one kind of rows."""
    module = importlib.import_module(f"gpulint.libraries.{FILES[kind]}")
    found: type[Any] = module.KINDS[kind]
    return found


@cache
def tables(file: str) -> dict[str, list[dict[str, Any]]]:
    """The tables of one of gpulint's own files, by kind."""
    import pkgutil
    import tomllib

    data = pkgutil.get_data(__name__, f"{file}.toml")
    assert data is not None
    return tomllib.loads(data.decode())


def _own(kind: str) -> tuple[Any, ...]:
    return read_rows(kind, tables(FILES[kind]).get(kind, []), ())


def read_rows(kind: str, given: Iterable[Mapping[str, Any]], known: Iterable[Mapping[str, Any]]) -> tuple[Any, ...]:
    """Rows as objects; one that ``extends`` another, of these or of ``known``, has that one's fields besides its own.

    Raises:
        RowError: the first one at fault, with its place among ``given`` in ``index``.
    """
    from gpulint.libraries.schema import RowError, build

    by_name: dict[str, Mapping[str, Any]] = {}
    for row in known:
        by_name[str(row.get("name", ""))] = extended(row, by_name)
    rows = []
    cls = kind_of_rows(kind)
    for index, row in enumerate(given):
        try:
            full = extended(row, by_name)
            rows.append(build(cls, full))
        except RowError as error:
            error.index = index
            raise
        by_name[str(full.get("name", ""))] = full
    return tuple(rows)


def extended(row: object, by_name: Mapping[str, Mapping[str, Any]]) -> Any:
    """A row's table with the fields that it takes over from the row that it names in ``extends``."""
    if not isinstance(row, Mapping) or "extends" not in row:
        return row
    base = by_name.get(str(row["extends"]))
    if base is None:
        from gpulint.libraries.schema import RowError

        raise RowError("extends", f"names no row before this one: {row['extends']!r}")
    return {"system": base.get("system", base["name"]), **base, **row}
