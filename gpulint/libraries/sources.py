"""Rows from outside gpulint: tables in settings, TOML files that settings or plugins name; faults by file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpulint import disk
from gpulint.libraries import FILES, read_rows, tables
from gpulint.libraries.schema import RowError, suggestion

Rows = dict[str, tuple[Any, ...]]
MAX_ROWS = 10_000
"""Most rows of one source."""


class ModelError(Exception):
    """Rows that cannot be used; the message names the file, the line where known, and the field."""


def from_settings(given: object, path: Path, prefix: str) -> Rows:
    """The rows of a ``models`` setting in the file ``path``: a list of files, or a table of rows with ``files``.

    ``prefix`` is how the table's headers start there (``tool.gpulint.models.``).

    Raises:
        ModelError: the first fault.
    """
    own = dict(given) if isinstance(given, Mapping) else {"files": given}
    files = own.pop("files", [])
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        raise ModelError(f"{path}: 'models' must be a list of files, or a table of rows with 'files'")
    found = _rows(own, path, prefix)
    for name in files:
        inner = path.parent / name
        if not disk.is_within(inner, path.parent):
            raise ModelError(f"{path}: 'models' names {name!r}, which is not in the folder of the settings file")
        found = merged(found, from_file(inner))
    return found


def from_file(path: Path) -> Rows:
    """The rows of a TOML file.

    Raises:
        ModelError: the first fault.
    """
    import tomllib

    try:
        table = tomllib.loads(disk.read(path).decode("utf-8-sig"))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not valid TOML: {error}") from None
    return _rows(table, path, "")


def from_tables(table: Mapping[str, Any], source: str) -> Rows:
    """The rows of tables in memory, which ``source`` made.

    Raises:
        ModelError: the first fault.
    """
    return _rows(table, None, "", source)


def merged(first: Mapping[str, tuple[Any, ...]], *others: Mapping[str, tuple[Any, ...]]) -> Rows:
    """Rows of several sources, in turn."""
    found = dict(first)
    for other in others:
        for kind, rows in other.items():
            found[kind] = (*found.get(kind, ()), *rows)
    return found


def _rows(table: Mapping[str, Any], path: Path | None, prefix: str, source: str = "") -> Rows:
    found: Rows = {}
    for kind, given in table.items():
        if kind not in FILES:
            place = f"{path}:{_line(path, prefix, kind, 0, '')}" if path is not None else source
            raise ModelError(f"{place}: unknown kind of rows '{kind}'{suggestion(kind, FILES)}")
        rows = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
        if len(rows) > MAX_ROWS:
            raise ModelError(f"{path or source}: more than {MAX_ROWS:,} rows of kind '{kind}'")
        try:
            found[kind] = read_rows(kind, rows, tables(FILES[kind]).get(kind, ()))
        except RowError as error:
            place = f"{path}:{_line(path, prefix, kind, error.index, error.field)}" if path is not None else source
            raise ModelError(f"{place}: {kind}: {error}") from None
    return found


def _line(path: Path, prefix: str, kind: str, index: int, field: str) -> int:
    """The line of a field in the row of a kind that has the number ``index``; of the row or of ``models`` at least.

    tomllib keeps no places, so the text is searched.
    """
    lines = disk.read(path).decode("utf-8-sig").splitlines()
    header = re.compile(rf"\s*\[\[\s*{re.escape(prefix + kind)}\s*\]\]")
    starts = [number for number, line in enumerate(lines) if header.match(line)]
    if index >= len(starts):
        return next(_matching(lines, rf"\s*\[*(?:[\w.]*\.)?(?:models|{re.escape(kind)})\b", 0), 0) + 1
    start = starts[index]
    key = re.escape(field.partition(".")[0])
    following = next(_matching(lines, r"\s*\[", start + 1), len(lines))
    return next(_matching(lines[:following], rf"\s*[\"']?{key}[\"']?\s*[=.]", start + 1), start) + 1


def _matching(lines: Sequence[str], pattern: str, start: int) -> Iterator[int]:
    compiled = re.compile(pattern)
    return (number for number in range(start, len(lines)) if compiled.match(lines[number]))
