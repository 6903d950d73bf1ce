"""Unified diffs of changed files, byte for byte, so that ``git apply`` and ``patch -p1`` take them."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpulint import regex
from gpulint.escaping import is_command, no_command, printable
from gpulint.writing import Change

_ODD = regex.compile(rb'[\x00-\x1f"\\\x7f-\xff]')
_QUOTED = regex.compile(rb'[\x00-\x1f"\\\x7f]')


def unified(change: Change, cwd: Path) -> bytes:
    """The diff of one file, its name relative to ``cwd``."""
    before, after = _lines(change.before or b""), _lines(change.after)
    name = os.fsencode(Path(os.path.relpath(change.path, cwd)).as_posix())
    old = b"/dev/null" if change.before is None else _named(b"a/" + name)
    lines = difflib.diff_bytes(difflib.unified_diff, before, after, old, _named(b"b/" + name), lineterm=b"\n")
    return b"".join(
        line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
        for line in _without_commands(lines)
    )


def _without_commands(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The same change without unchanged lines that a CI system would take for commands: those are removed and added."""
    for line in lines:
        if line.startswith(b" ") and is_command(line):
            yield b"-" + line[1:]
            yield b"+" + line[1:]
        else:
            yield line


def _lines(data: bytes) -> list[bytes]:
    return [line for line in re.split(rb"(?<=\n)", data) if line]


def _named(name: bytes) -> bytes:
    """A file name as git writes it: quoted where it holds odd characters, with a tab behind blanks."""
    text = os.fsdecode(name)
    if _QUOTED.search(name) or no_command(printable(text)) != text:
        return b'"' + _ODD.sub(lambda odd: b"\\%03o" % ord(odd.group()), name).replace(b"##", b"#\\043") + b'"'
    return name + b"\t" if b" " in name else name
