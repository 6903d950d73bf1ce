"""Profiles of files, whatever holds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gpulint_share.errors import ShareError
from gpulint_share.profiles import estimates, recordings, tables, tasks
from gpulint_share.profiles.profile import Profile

_READERS: dict[str, Callable[[Path], list[Profile]]] = {
    ".csv": tables.read_csv,
    ".parquet": tables.read_parquet,
    ".toml": tables.read_toml,
    ".json": estimates.read,
    ".jsonl": recordings.read,
    ".rad": tasks.read,
}


def read(paths: Sequence[Path]) -> list[Profile]:
    """The jobs of all files, and of the files in folders; jobs of the same name are numbered.

    A file is a recording of ``gpulint probe`` (.jsonl), the answer of ``gpulint audit --output-format csv`` or a table
    (.csv, .parquet, .toml), the answer of ``gpulint estimate --output-format json`` (.json) or a task file of CARMA
    (.rad).

    Raises:
        ShareError: a file cannot be read, or no job is in any of them.
    """
    found: list[Profile] = []
    for path in paths:
        inside = sorted(child for child in path.iterdir() if child.suffix in _READERS) if path.is_dir() else [path]
        for file in inside:
            found += _read(file)
    if not found:
        where = ", ".join(str(path) for path in paths)
        raise ShareError(f"no jobs in {where}; expected recordings, tables, estimates or .rad files")
    return _numbered(found)


def _read(path: Path) -> list[Profile]:
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise ShareError(f"{path}: the suffix must be one of {', '.join(_READERS)}")
    try:
        return reader(path)
    except OSError as error:
        raise ShareError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise ShareError(f"{path}: this is not UTF-8") from None


def _numbered(found: list[Profile]) -> list[Profile]:
    from dataclasses import replace

    seen: dict[str, int] = {}
    numbered = []
    for one in found:
        seen[one.name] = count = seen.get(one.name, 0) + 1
        numbered.append(one if count == 1 else replace(one, name=f"{one.name} ({count})"))
    return numbered
