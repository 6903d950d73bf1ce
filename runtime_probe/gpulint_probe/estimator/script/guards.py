"""What a script may not do while it is only estimated: change files, talk to the network."""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import builtins
import contextlib
import io
import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

REDIRECTED = "files that the script writes go to a scratch folder"


class Overlay:
    """A scratch folder in which what a script writes is kept, under the path that the script gave it.

    Temporary files and those in the user's cache folder, which programs make again, are written where they are.
    """

    def __init__(self, folder: Path, note: Callable[[str], None]) -> None:
        self.folder = folder
        self._note = note
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        hub = os.environ.get("HF_HOME") or os.environ.get("HF_DATASETS_CACHE") or cache
        self._free = tuple(
            os.path.realpath(path) + os.sep for path in (tempfile.gettempdir(), "/dev", "/proc", cache, hub)
        )

    def is_free(self, path: Any) -> bool:
        """Return whether a file is changed where it is: a temporary or cached one."""
        return (os.path.realpath(_absolute(path)) + os.sep).startswith(self._free)

    def place(self, path: Any) -> Any:
        """Return the path at which a written file is kept; its folder there is created."""
        if self.is_free(path):
            return path
        self._note(REDIRECTED)
        place = self.folder / _absolute(path).lstrip(os.sep)
        real_makedirs(place.parent, exist_ok=True)
        return place

    def find(self, path: Any) -> Any:
        """Return the path from which a file is read: in the overlay if the script has written it."""
        if not isinstance(path, str | bytes | os.PathLike):
            return path
        place = self.folder / _absolute(path).lstrip(os.sep)
        return place if _is_there(place) else path


def _absolute(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path))  # noqa: PTH100 (parts named ".." go, links stay)


real_makedirs, real_lstat = os.makedirs, os.lstat


def _is_there(path: Any) -> bool:
    try:
        real_lstat(path)
    except OSError:
        return False
    return True


def install(note: Callable[[str], None], stack: contextlib.ExitStack) -> Overlay:
    """Redirect writes to a scratch folder, which is returned, and refuse connections until ``stack`` is closed."""
    overlay = Overlay(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpulint-estimate-"))), note)
    for owner, name, answer in (*_contents(overlay), *_names(overlay), *_network()):
        stack.enter_context(mock.patch.object(owner, name, answer))
    return overlay


def _contents(overlay: Overlay) -> list[tuple[Any, str, Callable[..., Any]]]:
    real_open, real_stat = io.open, os.stat

    def open_(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if isinstance(file, str | bytes | os.PathLike):
            writes = any(letter in mode for letter in "wax+")
            source = overlay.find(file)
            file = overlay.place(file) if writes else source
            if writes and "w" not in mode and "x" not in mode and source != file and Path(source).is_file():
                shutil.copyfile(source, file)  # what is appended to or changed in place
        return real_open(file, mode, *args, **kwargs)

    def stat(path: Any, **kwargs: Any) -> Any:
        return real_stat(path if kwargs.get("dir_fd") is not None else overlay.find(path), **kwargs)

    return [(builtins, "open", open_), (io, "open", open_), (os, "stat", stat), *_listings(overlay)]


def _listings(overlay: Overlay) -> list[tuple[Any, str, Callable[..., Any]]]:
    """Questions about folders, which the script may have made itself."""

    def found(real: Callable[..., Any]) -> Callable[..., Any]:
        def ask(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            own = isinstance(path, int) or kwargs.get("dir_fd") is not None
            return real(path if own or _is_there(path) else overlay.find(path), *args, **kwargs)

        return ask

    def access(path: Any, mode: int, **kwargs: Any) -> bool:
        return real_access(path if isinstance(path, int) else overlay.find(path), mode, **kwargs)

    real_access = os.access
    return [(os, "access", access), *((os, name, found(getattr(os, name))) for name in ("listdir", "scandir", "lstat"))]


def _names(overlay: Overlay) -> list[tuple[Any, str, Callable[..., Any]]]:
    real_mkdir, real_replace, real_rmtree = os.mkdir, os.replace, shutil.rmtree

    def makedirs(name: Any, *_: Any, **__: Any) -> None:
        real_makedirs(overlay.place(name), exist_ok=True)

    def mkdir(path: Any, *args: Any, **kwargs: Any) -> None:
        place = overlay.place(path)
        if place is path:
            real_mkdir(path, *args, **kwargs)
        else:
            real_makedirs(place, exist_ok=True)

    def move(source: Any, target: Any, **_: Any) -> None:
        found, place = overlay.find(source), overlay.place(target)
        if found is not source or overlay.is_free(source):
            real_replace(found, place)

    def link(source: Any, target: Any, **_: Any) -> None:
        found = overlay.find(source)
        if Path(found).is_file():
            shutil.copyfile(found, overlay.place(target))

    def changing(real: Callable[..., Any]) -> Callable[..., Any]:
        def change(path: Any, *args: Any, **kwargs: Any) -> None:
            if isinstance(path, int) or kwargs.get("dir_fd") is not None:  # within rmtree, or an open file
                real(path, *args, **kwargs)
                return
            found = overlay.find(path)
            if found is not path or overlay.is_free(path):
                real(found, *args, **kwargs)

        return change

    def rmtree(path: Any, *args: Any, **kwargs: Any) -> None:
        if overlay.is_free(path):
            real_rmtree(path, *args, **kwargs)

    def nothing(*_: Any, **__: Any) -> None:
        return None

    return [
        (os, "makedirs", makedirs), (os, "mkdir", mkdir), (os, "rename", move), (os, "replace", move),
        (os, "link", link), (os, "symlink", nothing), (shutil, "rmtree", rmtree), (shutil, "copystat", nothing),
        (shutil, "copymode", nothing),
        *((os, name, changing(getattr(os, name))) for name in ("remove", "unlink", "rmdir", "chmod", "utime")),
    ]  # fmt: skip


def _network() -> list[tuple[Any, str, Callable[..., Any]]]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError("gpulint estimate refuses network connections: use local data and configurations")

    return [
        (socket.socket, "connect", refuse),
        (socket, "create_connection", refuse),
        (socket, "getaddrinfo", refuse),
    ]
