"""Writing a file in one step: whoever reads it, and whatever interrupts, finds the old content or all of the new."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpulint_probe.recording import RecordingError, open_for_writing


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write to, which takes the place of ``path`` at the end of the block; if that raises, nothing happens.

    Raises:
        RecordingError: it cannot be written, for instance because the disk is full.
    """
    try:
        target = Path(os.path.realpath(path))
        before = _mode(target)
        if before is not None and not stat.S_ISREG(before):
            os.close(open_for_writing(target))  # a pipe that nobody reads would block
            yield path  # a device or a pipe, which cannot be replaced
            return
        temporary = _beside(target)
        try:
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.chmod(stat.S_IMODE(before) if before is not None else 0o666 & ~_umask())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from error


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _beside(target: Path) -> Path:
    handle, name = tempfile.mkstemp(prefix=".gpulint-", suffix=".tmp", dir=target.parent)
    os.close(handle)
    return Path(name)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
