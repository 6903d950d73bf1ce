"""Checkouts of code that a workload names by repository and commit, from mirrors that the server has."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

_NAME = re.compile(r"(?:https?://|ssh://|git@)?(?:[^@/]+@)?([\w.-]+)[:/]([\w./-]+?)(?:\.git)?/?")
MAX_CHECKOUTS = 50
"""Checkouts that are kept; the oldest ones go."""
TIME = 60
"""Seconds that making a checkout may take."""


class Mirrors:
    """``folder`` holds bare repositories as ``HOST/OWNER/NAME.git``. Nothing is fetched."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._checkouts = Path(tempfile.mkdtemp(prefix="gpulint-webhook-"))

    def close(self) -> None:
        """Remove the checkouts."""
        shutil.rmtree(self._checkouts, ignore_errors=True)

    def checkout(self, repository: str, commit: str) -> Path | None:
        """A folder with the files of a commit; None if no mirror has it."""
        git = self._mirror(repository)
        if git is None:
            return None
        place = self._checkouts / f"{git.parent.parent.name}-{git.parent.name}-{git.stem}-{commit}"
        if place.is_dir():
            os.utime(place)
            return place
        made = self._unpacked(git, commit)
        if made is None:
            return None
        with contextlib.suppress(OSError):  # somebody else was faster
            made.rename(place)
        shutil.rmtree(made, ignore_errors=True)
        self._forget()
        return place

    def _mirror(self, repository: str) -> Path | None:
        match = _NAME.fullmatch(repository)
        if match is None:
            return None
        name = PurePosixPath(match[1], f"{match[2]}.git")
        if any(part.startswith(".") for part in name.parts):
            return None
        path = self._folder.joinpath(*name.parts)
        return path if path.is_dir() and path.resolve().is_relative_to(self._folder.resolve()) else None

    def _unpacked(self, git: Path, commit: str) -> Path | None:
        made = Path(tempfile.mkdtemp(dir=self._checkouts))
        archive = made.with_suffix(".tar")
        env = {"PATH": os.environ.get("PATH", ""), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        command = ["git", f"--git-dir={git}", "archive", "--format=tar", f"--output={archive}", commit]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=TIME, env=env)
            with tarfile.open(archive) as tar:
                tar.extractall(made, filter="data")
            (made / ".git").mkdir()  # so that it counts as a project
        except (OSError, subprocess.SubprocessError, tarfile.TarError):
            shutil.rmtree(made, ignore_errors=True)
            return None
        finally:
            archive.unlink(missing_ok=True)
        return made

    def _forget(self) -> None:
        kept = sorted(self._checkouts.iterdir(), key=lambda place: place.stat().st_mtime)
        for place in kept[:-MAX_CHECKOUTS]:
            shutil.rmtree(place, ignore_errors=True)
