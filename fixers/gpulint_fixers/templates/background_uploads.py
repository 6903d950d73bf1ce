"""Checkpoints and results that reach slow storage while training goes on. Written by ``gpulint fix``.

What is handed in is copied to the local disk first, so that training may change it at once. One worker carries the
copies to their places in the order of the calls, and the interpreter waits for it before it exits. A failure is printed
and training goes on. At most two copies wait, in the folder that ``TMPDIR`` names, else in the system's own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any


def save_in_background(obj: Any, f: Any, *args: Any, **options: Any) -> None:
    """``torch.save(obj, f, ...)`` that returns once ``obj`` is on the local disk.

    The file at ``f`` is replaced in one step when all of it has arrived. Call ``wait_for_uploads`` before reading it.
    """
    import torch

    if not isinstance(f, (str, os.PathLike)):
        torch.save(obj, f, *args, **options)
        return
    target = Path(f).absolute()
    _enqueue(lambda copy: torch.save(obj, copy, *args, **options), lambda copy: _replace(copy, target), target)


def upload_in_background(upload: Callable[..., Any], source: Any, *args: Any, **options: Any) -> None:
    """``upload(source, ...)`` that returns once the file or folder ``source`` is copied on the local disk."""
    path = Path(source).absolute()
    take = shutil.copytree if path.is_dir() else shutil.copy2
    given = Path if isinstance(source, Path) else str  # what ``upload`` gets as it would without this function
    _enqueue(lambda copy: take(path, copy), lambda copy: upload(given(copy), *args, **options), path)


def wait_for_uploads() -> None:
    """Return when everything that was handed in before has arrived or failed."""
    if _last is not None:
        _last.result()


def _enqueue(take: Callable[[Path], Any], send: Callable[[Path], Any], path: Path) -> None:
    global _last
    _room.acquire()
    folder = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="background-uploads-"))
        copy = folder / path.name
        take(copy)
        _last = _worker.submit(_carry, send, copy, path)
    except BaseException:
        _clean_up(folder)
        raise


def _carry(send: Callable[[Path], Any], copy: Path, path: Path) -> None:
    try:
        send(copy)
    except Exception as error:
        print(f"upload of {path} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        _clean_up(copy.parent)


def _clean_up(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    _room.release()


def _replace(copy: Path, target: Path) -> None:
    """Copy beside the target, then rename, so that nobody ever reads half a file."""
    part = target.with_name(f"{target.name}.part{os.environ.get('RANK', '')}")
    try:
        shutil.copyfile(copy, part)
        part.replace(target)
    except BaseException:
        if part.exists():
            part.unlink()
        raise


def _start() -> None:
    global _worker, _room, _last
    _worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="background-uploads")
    _room = threading.BoundedSemaphore(2)
    _last = None


_worker: ThreadPoolExecutor
_room: threading.BoundedSemaphore
_last: Future[None] | None
_start()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start)  # threads do not survive a fork, so a child has nothing to wait for
# Clients of object stores start threads of their own, which Python refuses once its usual exit handlers run: wait
# before that where it is possible.
getattr(threading, "_register_atexit", atexit.register)(wait_for_uploads)
