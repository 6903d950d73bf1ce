"""Checkpoints that reach slow storage while training goes on."""

import os
import shutil
import tempfile
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import torch


class BackgroundCheckpoints:
    """Writes checkpoints to the local disk and lets one background worker carry them to their place, in order.

    Use it as a context manager: at its end it waits for the last upload. An upload that failed raises its error in the
    next ``save`` that has to wait, or at the end. At most ``pending`` files wait on the local disk.
    """

    def __init__(self, pending: int = 2):
        self._folder = tempfile.TemporaryDirectory(prefix="checkpoints-")
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint-upload")
        self._uploads: deque[Future[None]] = deque()
        self._pending = pending

    def __enter__(self) -> "BackgroundCheckpoints":
        return self

    def __exit__(self, kind, error, traceback) -> None:
        self._worker.shutdown(wait=True)
        self._folder.cleanup()
        failures = [upload.exception() for upload in self._uploads if upload.exception() is not None]
        if failures and error is None:
            raise failures[0]
        for failure in failures:
            print(f"checkpoint upload failed: {failure}", flush=True)

    def save(self, state: dict, target: Path) -> None:
        """Return as soon as ``state`` is on the local disk; ``target`` is then written in the background."""
        while self._uploads and (self._uploads[0].done() or len(self._uploads) >= self._pending):
            self._uploads.popleft().result()
        handle, name = tempfile.mkstemp(dir=self._folder.name, suffix=".pt")
        os.close(handle)
        torch.save(state, name)
        self._uploads.append(self._worker.submit(_upload, Path(name), target))


def _upload(local: Path, target: Path) -> None:
    """Copy, then rename, so that nobody reads half a checkpoint."""
    try:
        part = target.with_name(target.name + ".part")
        shutil.copyfile(local, part)
        part.replace(target)
    finally:
        local.unlink()
