"""What git knows of a work tree: the revision to compare with, which files changed since, and what they held."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpulint.config import ConfigError

_AT_ONCE = 200
"""Files named in one command line."""
_GITLINK, _SYMLINK = "160000", "120000"


@dataclass(frozen=True, slots=True)
class Change:
    """How one path differs between a revision and the work tree; paths are relative to the top, blobs are hashes."""

    old: str | None
    """The path in the revision; None if the file is new."""
    new: str | None
    """The path in the work tree; None if the file is gone."""
    blob: str | None = None
    """What the file held; None if it was no plain file (a link, a submodule)."""


class Repository:
    """The git work tree around a folder. Nothing here writes to it; its locks are left alone, too."""

    def __init__(self, folder: Path, why: str = "--diff needs a git work tree") -> None:
        """Raises ConfigError: git is missing, or ``folder`` is in no work tree; ``why`` says what asks for one."""
        self._folder = folder
        self.top = Path(os.path.realpath(self._text("rev-parse", "--show-toplevel", why=why).rstrip("\n")))

    def _run(self, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        # The index is not refreshed on disk and no monitor is started: whoever only looks changes nothing.
        command = ["git", "-C", str(self._folder), "-c", "core.fsmonitor=false", *arguments]
        environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        try:
            return subprocess.run(command, input=stdin, capture_output=True, env=environment, check=False)
        except OSError as error:
            raise ConfigError(f"git cannot be run: {error.strerror}") from None

    def _text(self, *arguments: str, why: str) -> str:
        done = self._run(*arguments)
        if done.returncode != 0:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            said = lines[0].removeprefix("fatal: ") if lines else f"exit code {done.returncode}"
            raise ConfigError(f"{why}: git {arguments[0]} in {self._folder}: {said}")
        return os.fsdecode(done.stdout)

    def base(self, revision: str) -> str:
        """The commit where the current branch left ``revision``: what came to ``revision`` later is no change here.

        Raises:
            ConfigError: no such revision, no commit yet, or no common commit (in a shallow clone it may be cut off).
        """
        shallow = ""
        if self._run("rev-parse", "--is-shallow-repository").stdout.strip() == b"true":
            shallow = "; this is a shallow clone, fetch more of its history (fetch-depth: 0 in actions/checkout)"
        found = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}")
        if found.returncode != 0:
            raise ConfigError(f"--diff {revision}: no such revision{shallow}")
        common = self._run("merge-base", found.stdout.decode().strip(), "HEAD")
        if common.returncode != 0:
            raise ConfigError(f"--diff {revision}: it has no commit in common with HEAD{shallow}")
        return common.stdout.decode().split()[0]

    def changes(self, base: str) -> list[Change]:
        """What differs between a commit and the work tree, committed or not. Untracked files are not listed."""
        options = ("--raw", "-z", "--no-abbrev", "-M", "--no-relative", "--no-ext-diff", "--ignore-submodules=dirty")
        fields = iter(self._text("diff", *options, base, "--", why="--diff").split("\0"))
        found = [change for head in fields if head for change in _change(head, fields)]
        # A file that is only taken out of the index is still there.
        return [
            Change(change.old, change.old, change.blob)
            if change.new is None and change.old is not None and (self.top / change.old).is_file()
            else change
            for change in found
        ]

    def unsaved(self, files: Sequence[Path]) -> set[Path]:
        """Those of ``files`` (real paths) whose content git could not bring back: changed since they were added,
        untracked or ignored."""
        options = ("-z", "--porcelain", "--ignored", "--untracked-files=all", "--no-renames")
        found = set[Path]()
        for start in range(0, len(files), _AT_ONCE):
            part = map(str, files[start : start + _AT_ONCE])
            status = self._text("--literal-pathspecs", "status", *options, "--", *part, why="--apply")
            found |= {self.top / entry[3:] for entry in status.split("\0") if entry and entry[1] != " "}
        return found

    def tracked(self) -> tuple[set[str], set[str]]:
        """Paths of the index, from the top: files, and submodules."""
        files: set[str] = set()
        submodules: set[str] = set()
        for line in self._text("-C", str(self.top), "ls-files", "-z", "--stage", why="--diff").split("\0"):
            head, _, path = line.partition("\t")
            if path:
                (submodules if head.startswith(_GITLINK) else files).add(path)
        return files, submodules

    def contents(self, blobs: Iterable[str], limit: int) -> dict[str, bytes]:
        """What blobs hold, by hash; those larger than ``limit`` bytes are left out."""
        wanted = sorted(set(blobs))
        sizes = self._run("cat-file", "--batch-check", stdin="\n".join(wanted).encode()).stdout.decode().splitlines()
        small = [line.split()[0] for line in sizes if line.split()[1] == "blob" and int(line.split()[2]) <= limit]
        out = self._run("cat-file", "--batch", stdin="\n".join(small).encode()).stdout if small else b""
        found, at = {}, 0
        while at < len(out):
            end = out.index(b"\n", at)
            name, _, size = out[at:end].decode().split()
            found[name] = out[end + 1 : end + 1 + int(size)]
            at = end + 1 + int(size) + 1
        return found


def _change(head: str, fields: Iterator[str]) -> Iterator[Change]:
    """The changes of one record of ``git diff --raw -z``: modes, hashes and status, then one path or two."""
    old_mode, new_mode, blob, _, status = head.lstrip(":").split(" ")
    path = next(fields)
    target = next(fields) if status[0] in "RC" else path
    plain = old_mode not in (_GITLINK, _SYMLINK) and set(blob) != {"0"}
    yield Change(
        None if status[0] == "A" else path,
        None if status[0] == "D" or (new_mode == "000000" and status[0] != "U") else target,
        blob if plain else None,
    )
