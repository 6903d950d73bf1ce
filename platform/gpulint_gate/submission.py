"""One submission: what a user hands to a scheduler, as the gate reads it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WRAPPED = ".gpulint-wrap.sh"
"""Name under which the command of ``sbatch --wrap`` is judged; no such file is written."""
_HOLDS = frozenset(
    "gres gpus gpus-per-node gpus-per-socket gpus-per-task tres-per-node tres-per-task nodes ntasks ntasks-per-node"
    " ntasks-per-gpu cpus-per-task cpus-per-gpu mem-per-gpu partition time array exclusive".split()
)
"""Options of ``sbatch`` that say what the job holds. Those of the command line win over the script's."""
_DIRECTIVE = re.compile(r"#SBATCH[ \t]+(?:--([\w-]+)|-(\w))")
LONG_NAMES = {
    "G": "gpus", "N": "nodes", "n": "ntasks", "c": "cpus-per-task", "p": "partition", "t": "time", "a": "array",
    "D": "chdir",
}  # fmt: skip
"""Long names of sbatch's short options, as far as they matter here."""


class SubmissionError(Exception):
    """The submission cannot be read; the message says why."""


@dataclass(frozen=True)
class Submission:
    """A batch script or manifest with what the scheduler knows of it.

    ``path`` is absolute and may name no file where ``text`` is given (``sbatch --wrap``, a manifest in a request).
    ``options`` are long options of the command line without dashes, which win over the script's own.
    """

    path: Path
    workdir: Path
    text: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    partition: str = ""
    queue: str = ""
    comment: str = ""
    gpus: int | None = None
    """GPUs of all nodes, if the scheduler says so; else they are read from the script."""

    def content(self) -> bytes:
        """The text of the submission.

        Raises:
            SubmissionError: it cannot be read.
        """
        if self.text is not None:
            return self.text.encode("utf-8", "surrogateescape")
        try:
            if not self.path.is_file():
                raise SubmissionError(f"{self.path}: no such file")
            return self.path.read_bytes()
        except OSError as error:
            raise SubmissionError(f"{self.path}: cannot be read: {error.strerror}") from None

    def judged(self) -> tuple[bytes | None, int]:
        """The script as the scheduler runs it, with the options of the command line as directives, and how many lines
        these add below the first one; (None, 0) where the file on the disk is that already."""
        holding = {name: value for name, value in self.options.items() if name in _HOLDS and value}
        if not holding:
            return (None if self.text is None else self.content()), 0
        lines = self.content().decode("utf-8", "surrogateescape").splitlines(keepends=True)
        if not lines or not lines[0].startswith("#!"):
            return (None if self.text is None else self.content()), 0  # a manifest, or nothing that sbatch takes
        kept = [line if _option(line) not in holding else "#\n" for line in lines[1:]]
        added = [f"#SBATCH --{name}={value}\n" for name, value in sorted(holding.items())]
        return "".join([lines[0], *added, *kept]).encode("utf-8", "surrogateescape"), len(added)

    def digest(self) -> str:
        """A hash of the script and its options, for the log."""
        made = hashlib.sha256()
        try:
            made.update(self.content())
        except SubmissionError as error:
            made.update(str(error).encode("utf-8", "surrogateescape"))
        made.update(repr(sorted(self.options.items())).encode("utf-8", "surrogateescape"))
        return made.hexdigest()


def _option(line: str) -> str:
    """The long name of the option that a directive sets; empty for any other line."""
    match = _DIRECTIVE.match(line)
    return "" if match is None else match[1] or LONG_NAMES.get(match[2], "")


def wrapped(command: str, workdir: Path) -> tuple[Path, str]:
    """Path and text of the script that ``sbatch --wrap`` makes of a command."""
    return workdir / WRAPPED, f"#!/bin/sh\n{command}\n"


def from_record(record: Mapping[str, Any], *, source: str = "the submission") -> Submission:
    """A submission from a JSON object: ``script`` or ``wrap``, ``workdir``, ``options``, ``env``, ``user``,
    ``partition``, ``queue``, ``comment``, ``gpus``, ``text``.

    Raises:
        SubmissionError: a field is missing or has the wrong type; ``source`` is named.
    """
    for name in ("script", "wrap", "workdir", "user", "partition", "queue", "comment", "text"):
        if not isinstance(record.get(name, ""), str | None):
            raise SubmissionError(f"{source}: '{name}' must be a string")
    for name in ("options", "env"):
        if not isinstance(record.get(name) or {}, Mapping):
            raise SubmissionError(f"{source}: '{name}' must be an object of strings")
    gpus = record.get("gpus")
    if gpus is not None and (isinstance(gpus, bool) or not isinstance(gpus, int) or gpus < 0):
        raise SubmissionError(f"{source}: 'gpus' must be a whole number")
    workdir = Path(record.get("workdir") or ".").absolute()
    text = record.get("text") or None
    if record.get("wrap"):
        path, text = wrapped(str(record["wrap"]), workdir)
    elif record.get("script"):
        path = workdir / str(record["script"])
    else:
        raise SubmissionError(f"{source}: needs 'script' or 'wrap'")
    options = _strings(record.get("options") or {})
    return Submission(
        path,
        workdir,
        text,
        options,
        _strings(record.get("env") or {}),
        record.get("user") or "",
        record.get("partition") or options.get("partition", ""),
        record.get("queue") or "",
        record.get("comment") or options.get("comment", ""),
        gpus,
    )


def _strings(table: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): _text(value) for name, value in table.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else ""
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)
