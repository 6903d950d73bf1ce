"""The cache: what a scan reported, kept for the next scan of the very same files under the very same conditions.

An entry's name is a hash of everything that was known before the scan: settings, the paths and contents of all files,
the installed plugins and gpulint's own code. Whatever else the scan asked of the disk (is there a module of that name,
a folder beside the script) is written down in the entry with the answer, and asked again before the entry is used. So
an entry either gives what a scan would give, or nothing.

An entry is a line with an authentication code and a line of JSON. The code is made with a key that only the user can
read (see ``location``), so that an entry from elsewhere, say from the scanned repository, is not even parsed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import hmac
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint import __version__
from gpulint.cache.folder import PROJECT_DIGITS, Folder
from gpulint.impact import Level

if TYPE_CHECKING:
    from gpulint.config import Config
    from gpulint.report import Report
    from gpulint.rule import Rule
    from gpulint.workspace.tree import Tree

MAX_BYTES = 100_000_000
"""Of one entry; a longer report is not kept."""


class Cache:
    """The entries in an open folder that were written with ``secret``."""

    def __init__(self, folder: Folder, secret: bytes) -> None:
        self._folder = folder
        self._secret = secret
        self._stamps: dict[Path, str] = {}

    def get(self, key: str) -> tuple[Report, tuple[Rule, ...]] | None:
        """The report of an entry and the rules that ran; None if there is none or it does not hold any more."""
        entry = self._entry(key, "json")
        try:
            if entry is None or not _still_holds(entry["asked"]):
                return None
            from gpulint.cache.entries import report_of

            return report_of(entry)
        except Exception:
            # Another version of gpulint may have written entries of another shape, with anything missing.
            return None

    def get_answers(self, key: str) -> dict[str, Any] | None:
        """Return what :meth:`put_answers` kept, if gpulint's code is the same; whether it holds still is another
        question."""
        return self._entry(key, "answers")

    def put(self, key: str, report: Report, rules: Sequence[Rule], tree: Tree, code: Iterable[Path]) -> None:
        """Keep a report; silently not, where nothing can be written."""
        from gpulint.cache.entries import entry_of

        self._keep(key, "json", lambda: {"asked": tree.disk_queries()} | entry_of(report, rules), code)

    def put_answers(self, key: str, answers: Callable[[], dict[str, Any]], code: Iterable[Path]) -> None:
        """Keep answers of queries; silently not, where nothing can be written."""
        self._keep(key, "answers", answers, code)

    def _entry(self, key: str, kind: str) -> dict[str, Any] | None:
        text = self._folder.read(_name(key, kind), MAX_BYTES) or b""
        code, _, text = text.partition(b"\n")
        if not hmac.compare_digest(code, self._code(key, text)):
            return None
        try:
            entry: dict[str, Any] = json.loads(text)
            current = all(code_of(Path(path)) == stamp for path, stamp in entry["code"].items())
        except Exception:
            return None
        return entry if current else None

    def _keep(self, key: str, kind: str, made: Callable[[], dict[str, Any]], code: Iterable[Path]) -> None:
        with contextlib.suppress(OSError, ValueError):
            entry = {"code": {str(folder): self._stamp(folder) for folder in code}} | made()
            text = json.dumps(entry, separators=(",", ":")).encode()
            data = self._code(key, text) + b"\n" + text
            if len(data) <= MAX_BYTES:
                self._folder.write(_name(key, kind), data)
                self._folder.shrink()

    def _stamp(self, folder: Path) -> str:
        if folder not in self._stamps:
            self._stamps[folder] = code_of(folder)
        return self._stamps[folder]

    def _code(self, key: str, text: bytes) -> bytes:
        return hmac.digest(self._secret, key.encode() + b"\n" + text, "sha256").hex().encode()


def _name(key: str, kind: str) -> str:
    return f"{key[:40]}.{kind}"


def key_of(
    root: Path, config: Config, files: Sequence[Path], reported: Sequence[Path], data: Mapping[Path, bytes], *more: Any
) -> str:
    """The key of a scan below ``root`` that reports on ``reported`` and may read ``files``; ``more`` is anything else
    that decides what it finds. Keys of one project start alike."""
    project = hashlib.blake2b(os.fsencode(root), digest_size=PROJECT_DIGITS // 2)
    digest = hashlib.sha256()  # faster than others where the processor has instructions for it, as most have
    # What is shown of a report is decided after it is read; selectors that name nothing are refused by a scan alone.
    selectors = dict.fromkeys(config.per_rule_impact, Level.LOW)
    config = dataclasses.replace(config, impact=Level.LOW, per_rule_impact=selectors, per_file_impact={})
    head = (
        __version__,
        sys.version,
        sys.flags.utf8_mode,
        root,
        config,
        *more,
        [str(path) for path in reported],
        _installed(),
    )
    digest.update(repr(head).encode("utf-8", "surrogateescape"))
    for path in files:
        text = data[path]
        digest.update(f"\n{path}\0{len(text)}\0".encode("utf-8", "surrogateescape"))
        digest.update(text)
    return project.hexdigest() + digest.hexdigest()


def _installed() -> list[tuple[str, int]]:
    """Installed distributions, any of which may bring plugins."""
    found = []
    for folder in sorted(set(sys.path)):
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder or "."):
                if entry.name.endswith((".dist-info", ".egg-info", ".egg-link")):
                    found.append((entry.path, entry.stat().st_mtime_ns))
    return sorted(found)


def code_of(folder: Path) -> str:
    """A stamp of the Python and data files below a package's folder (or of one file): their names, sizes and times."""
    digest = hashlib.blake2b(digest_size=16)
    if folder.is_file():
        info = folder.stat()
        return f"{info.st_size} {info.st_mtime_ns}"
    todo = [str(folder)]
    for current in todo:
        with os.scandir(current) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir():
                    if entry.name != "__pycache__":
                        todo.append(entry.path)
                elif entry.name.endswith((".py", ".json", ".toml")):
                    info = entry.stat()
                    digest.update(f"{entry.path}\0{info.st_size}\0{info.st_mtime_ns}\n".encode("utf-8", "replace"))
    return digest.hexdigest()


def _still_holds(asked: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether the disk answers as it did when the entry was made."""
    from gpulint.workspace.files import ANSWERS

    return all(ANSWERS[kind](path) == answer for kind, answers in asked.items() for path, answer in answers.items())
