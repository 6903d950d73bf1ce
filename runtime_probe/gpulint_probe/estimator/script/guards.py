"""What a script may not do while it is only estimated: write files, talk to the network, wait for other ranks."""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import builtins
import contextlib
import io
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch


def install(note: Callable[[str], None], stack: contextlib.ExitStack) -> None:
    """Redirect writes to a scratch folder and refuse connections until ``stack`` is closed."""
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpulint-estimate-")))
    real_open = io.open
    temporary = tempfile.gettempdir()

    def redirected(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        writes = isinstance(mode, str) and any(letter in mode for letter in "wax+")
        if writes and isinstance(file, str | os.PathLike) and not _harmless(os.fspath(file), temporary):
            note("files that the script writes go to a scratch folder")
            file = scratch / Path(os.fsdecode(file)).name
        return real_open(file, mode, *args, **kwargs)

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError("gpulint estimate refuses network connections: use local data and configurations")

    def nothing(*_: Any, **__: Any) -> None:
        return None

    for owner, name, answer in (
        (builtins, "open", redirected),
        (io, "open", redirected),
        (socket.socket, "connect", refuse),
        (socket, "create_connection", refuse),
        (socket, "getaddrinfo", refuse),
        (torch, "save", nothing),
        (os, "makedirs", nothing),
        (os, "mkdir", nothing),
        (Path, "mkdir", nothing),
        (os, "remove", nothing),
        (os, "rename", nothing),
        (os, "replace", nothing),
        (os, "symlink", nothing),
    ):
        stack.enter_context(mock.patch.object(owner, name, answer))


def _harmless(path: Any, temporary: str) -> bool:
    text = os.fsdecode(path)
    return text.startswith((temporary, "/dev/"))
