"""Where the findings of one run go: any number of formats, each to a file of its own, at most one to the terminal."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from gpulint.config import ConfigError
from gpulint.records import dataclass
from gpulint.reporters import FORMATS

FOR_PEOPLE = ("full", "concise")
FOR_LOGS = (*FOR_PEOPLE, "github")
"""Formats that are read on a terminal or in a log, in its encoding; the others are UTF-8 whatever the locale."""


def write_utf8(text: str) -> None:
    """Write text for programs to standard output."""
    sys.stdout.flush()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    else:  # somebody who calls ``main`` collects the output as text
        sys.stdout.write(text)


@dataclass
class Output:
    """One format; ``file`` is None for standard output."""

    format: str
    file: Path | None = None

    def write(self, text: str) -> None:
        """Print or write the findings. Raises ConfigError if the file cannot be written."""
        if self.file is None:
            if self.format in FOR_LOGS:
                sys.stdout.write(text)
            else:
                write_utf8(text)
            return
        try:
            self.file.write_bytes(text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise ConfigError(f"--output-file {self.file}: {error.strerror}") from None


class _Pieces(argparse.Action):
    """Collects ``--output-format`` and ``--output-file`` in the order in which they are given."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        namespace.outputs = [*(namespace.outputs or []), values]


def add_arguments(group: Any) -> None:
    """Declare the two options, which may be repeated in pairs."""
    group.add_argument(
        "--output-format", action=_Pieces, choices=FORMATS, dest="outputs",
        help="default: full, or by the suffix of --output-file (.html, .json, .md, .sarif, .xml); may be repeated, with"
        " an --output-file for each but one",
    )  # fmt: skip
    group.add_argument(
        "--output-file", action=_Pieces, type=Path, metavar="FILE", dest="outputs",
        help="write the findings to a file instead of standard output",
    )  # fmt: skip


_BY_SUFFIX = {".html": "html", ".json": "json", ".md": "markdown", ".sarif": "sarif", ".xml": "junit"}


def _paired(pieces: Sequence[str | Path]) -> list[Output]:
    """Each file with the format before it, or, if the first piece is a file, with the format behind it.

    Raises:
        ConfigError: a file without a format, whose suffix does not say one either.
    """
    files_first = bool(pieces) and isinstance(pieces[0], Path)
    pairs: list[Output] = []
    waiting = False
    for piece in reversed(pieces) if files_first else pieces:
        if isinstance(piece, str):
            pairs.append(Output(piece))
        elif waiting:
            pairs[-1].file = piece
        else:
            known = _BY_SUFFIX.get(piece.suffix.lower(), "full" if len(pieces) == 1 else None)
            if known is None:
                raise ConfigError(f"--output-file {piece} has no --output-format of its own")
            pairs.append(Output(known, piece))
        waiting = isinstance(piece, str)
    return pairs[::-1] if files_first else pairs


def read(args: argparse.Namespace) -> list[Output]:
    """The outputs that were asked for. Raises ConfigError if they are in each other's way."""
    wanted = _paired(args.outputs or []) or [Output("full")]
    printed = [output.format for output in wanted if output.file is None]
    if len(printed) > 1:
        raise ConfigError(
            f"--output-format {' and '.join(printed)} would both go to standard output; add an --output-file for one"
        )
    files = [output.file.absolute() for output in wanted if output.file is not None]
    for file in files:
        if files.count(file) > 1:
            raise ConfigError(f"--output-file {file.name} is named twice")
    # Hints for people go with the format for people.
    args.output_format = printed[0] if printed else ""
    return wanted


def check(wanted: Sequence[Output], scanned: Collection[Path], root: Path) -> None:
    """Raises ConfigError, before time is spent on a scan, if a file cannot be written, is one of those to scan, or lies
    behind a link that leads out of the project."""
    for output in wanted:
        if output.file is None:
            continue
        if output.file.absolute() in scanned:
            raise ConfigError(f"--output-file {output.file}: this is one of the files to scan")
        if not output.file.parent.is_dir():
            raise ConfigError(f"--output-file {output.file}: there is no such folder")
        # `../report.json` names a file outside, as an absolute path may; no link leads there.
        named = Path(os.path.normpath(output.file.absolute()))
        if named.is_relative_to(root) and not output.file.resolve().is_relative_to(root.resolve()):
            raise ConfigError(f"--output-file {output.file}: a link out of the project is not written through")
