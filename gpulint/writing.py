"""Writing changed files: each whole or not at all, and only where what was read is what is still there."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks, and goes without
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Change:
    """New content of a file; ``before`` is what was read, None for a file that must not exist yet."""

    path: Path
    before: bytes | None
    after: bytes


class WriteError(Exception):
    """A file that was not written, and is as it was; the message names it."""


def refusal(path: Path, root: Path) -> str | None:
    """Why the file at ``path`` is not to be written, as far as can be told beforehand; None if nothing speaks against
    it. ``root`` is the top of the project, out of which no link may lead."""
    target = path.resolve()
    if not target.is_relative_to(root.resolve()):
        return f"{path}: a link out of the project is not written through"
    try:
        if target.exists() and not _writable(target, os.W_OK):
            return f"{path}: the file is read-only"
        folder = next(folder for folder in target.parents if folder.is_dir())
        if not _writable(folder, os.W_OK | os.X_OK):
            return f"{path}: its folder is read-only"
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None


def _writable(path: Path, wanted: int) -> bool:
    # The superuser may write everything, but whoever took the permission away meant it.
    return bool(path.stat().st_mode & 0o222) and os.access(path, wanted)


def write(changes: Sequence[Change], root: Path) -> None:
    """Write ``changes``, which belong together: all of them or none.

    Every file is replaced in one step by one that was written beside it, so that whoever reads or interrupts sees
    the old or the new content. Mode and, where permitted, owner stay. A link inside of ``root`` stays and its target
    is written.

    Raises:
        WriteError: a file cannot be written, has changed since it was read, or exists although it is new; none of
            ``changes`` is done.
    """
    done: list[tuple[Path, Change]] = []
    staged: list[tuple[Path, Path, Change]] = []
    with contextlib.ExitStack() as locks:
        try:
            for change in sorted(changes, key=lambda change: change.path):
                if reason := refusal(change.path, root):
                    raise WriteError(reason)
                with _named(change.path):
                    staged.append((_staged(change), change.path.resolve(), change))
            for folder in sorted({target.parent for _, target, _ in staged}):
                locks.enter_context(_locked(folder))
            for _, target, change in staged:
                _check_unchanged(target, change)
            for temporary, target, change in staged:
                done.append((target, change))
                with _named(change.path):
                    _put(temporary, target, change)
        except BaseException:
            for target, change in done:
                _take_back(target, change)
            raise
        finally:
            for temporary, _, _ in staged:
                temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say which file a failure is about."""
    try:
        yield
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {error.strerror or error}") from None


def _staged(change: Change) -> Path:
    """A complete file beside the one to be replaced, safely on the disk."""
    target = change.path.resolve()
    descriptor, name = tempfile.mkstemp(prefix=".gpulint-", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(change.after)
            stream.flush()
            if change.before is not None:
                info = target.stat()
                with contextlib.suppress(OSError):  # only the superuser may give files away
                    os.fchown(stream.fileno(), info.st_uid, info.st_gid)
                os.fchmod(stream.fileno(), stat.S_IMODE(info.st_mode))
            else:
                mask = os.umask(0)
                os.umask(mask)
                os.fchmod(stream.fileno(), 0o666 & ~mask)
            os.fsync(stream.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other gpulint processes out of ``folder`` where the file system knows locks."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise WriteError(f"{folder}: {error.strerror}") from None
    try:
        if fcntl is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        with contextlib.suppress(OSError):
            os.fsync(descriptor)  # the new names, too, are to survive a crash
    finally:
        os.close(descriptor)


def _check_unchanged(target: Path, change: Change) -> None:
    try:
        now = target.read_bytes() if change.before is not None or target.exists() else None
    except OSError as error:
        raise WriteError(f"{change.path}: cannot be read again: {error.strerror}") from None
    if now != change.before:
        what = "has changed since it was read" if change.before is not None else "exists already"
        raise WriteError(f"{change.path}: {what}; left as it is")


def _put(temporary: Path, target: Path, change: Change) -> None:
    if change.before is not None:
        temporary.replace(target)
        return
    try:
        target.hardlink_to(temporary)  # fails if the name is taken meanwhile, which renaming would not
    except FileExistsError:
        raise WriteError(f"{change.path}: exists already; left as it is") from None
    except OSError:  # no hard links on this file system
        with target.open("xb") as stream:
            stream.write(change.after)


def _take_back(target: Path, change: Change) -> None:
    """Undo one file of a set that could not be completed; what somebody else wrote meanwhile is not touched."""
    with contextlib.suppress(OSError):
        if target.read_bytes() != change.after:
            return
        if change.before is None:
            target.unlink()
            return
        restored = _staged(Change(change.path, change.before, change.before))
        restored.replace(target)
