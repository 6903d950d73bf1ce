"""Which files a run reads: a sorted walk that honours .gitignore, leaves third-party code alone and survives links."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from gpulint import disk
from gpulint.config import Config
from gpulint.documents import kind_of
from gpulint.finding import Problem
from gpulint.gitignore import NAME, IgnoreFiles, Ignores
from gpulint.patterns import compiled
from gpulint.records import dataclass, field

MAX_LINE = 1_000_000
HEAD = 4096

QUIET_EXCLUDES = (
    ".git", ".hg", ".svn", ".tox", ".nox", ".eggs", ".direnv", "__pycache__",
    ".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints", ".gpulint_cache", "__MACOSX",
)  # fmt: skip
"""Folders of tools, which nobody expects to be read: ``__MACOSX`` holds file attributes from archives made on macOS."""
NOTED_EXCLUDES = (
    ".venv", "venv", "node_modules", "site-packages", "dist-packages", "build", "dist",
    "vendor", "vendored", "_vendor", "third_party", "third-party", "thirdparty",
)  # fmt: skip
"""Folders of other people's or generated code; leaving them out is said in a note."""

# Suffixes that cannot be a script, so that a folder of a million images is walked without opening one.
_NEVER_SCRIPTS = frozenset(
    (
        ".avi .bin .bmp .bz2 .c .cc .cpp .cu .css .csv .ckpt .flac .gif .gz .h .h5 .hpp .html .jpeg .jpg .js .json"
        " .jsonl .lock .log .md .mp3 .mp4 .npy .npz .onnx .parquet .pdf .pkl .png .pt .pth .pyc .rst .safetensors .so"
        " .svg .tar .tfrecord .tif .tiff .tmp .toml .tsv .ts .wav .webm .webp .whl .xml .xz .zip .zst"
    ).split()
)


@dataclass
class Discovery:
    """The files to scan, sorted, as absolute paths, and what was left out and why."""

    files: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def note(self, path: Path, message: str) -> None:
        self.problems.append(Problem(path, message, is_error=False))


def project_root(paths: Sequence[Path]) -> Path:
    """The nearest folder upwards from all of ``paths`` (absolute) that looks like a top, else their parent."""
    folders = [path if disk.is_dir(path) else path.parent for path in paths]
    common = Path(os.path.commonpath(folders))
    return next((folder for folder in (common, *common.parents) if is_project(folder)), common)


def is_project(folder: Path) -> bool:
    """Return whether ``folder`` is the top of a project."""
    return any(disk.exists(folder / marker) for marker in ("gpulint.toml", "pyproject.toml", ".git"))


def absolute(path: Path) -> Path:
    """``path`` made absolute without ``..``, links kept."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - Path.resolve would follow links


def discover(paths: Sequence[Path], config: Config, root: Path, *, force_exclude: bool = False) -> Discovery:
    """Files below ``paths`` (absolute, existing).

    A file or folder that is named is scanned whatever excludes it, unless ``force_exclude`` says that nobody named it
    by hand (pre-commit passes all changed files); ``.gitignore`` does not count then either.
    """
    walk = _Walk(config, root)
    return walk.run([path for path in paths if not (force_exclude and walk.leaves_out(path))])


class _Walk:
    def __init__(self, config: Config, root: Path) -> None:
        self.top = root
        self.tops = [disk.real(root)]
        self.found = Discovery()
        self.seen: set[str] = set()
        self.links: list[Path] = []
        self.base = config.base
        self.quiet = frozenset(QUIET_EXCLUDES) if config.exclude is None else frozenset()
        self.noted = frozenset(NOTED_EXCLUDES) if config.exclude is None else frozenset()
        patterns = (*(config.exclude or ()), *config.extend_exclude)
        self.excludes = compiled(patterns) if patterns else None
        self.ignores = IgnoreFiles(self.found.note)
        self.has_ignored = False
        """Whether a file or folder was left out because a ``.gitignore`` names it."""

    def run(self, paths: Sequence[Path]) -> Discovery:
        for path in paths:
            if disk.is_dir(path):
                self.tops.append(disk.real(path))  # whoever names a link wants what is behind it
                self.has_ignored = False
                self.folder(path, self.ignores.above(path))
                self.tracked(path)
            else:
                self.file(path, explicit=True)
        # Links come last: a file that is reachable both ways is reported under its own name.
        while self.links:
            self.link(self.links.pop(0))
        self.found.files.sort(key=lambda path: path.parts)
        return self.found

    def first_visit(self, real: str) -> bool:
        fresh = real not in self.seen
        self.seen.add(real)
        return fresh

    def folder(self, folder: Path, ignores: Ignores) -> None:
        todo = [(folder, ignores)]
        while todo:
            folder, ignores = todo.pop()
            real = disk.real(folder)
            if not self.first_visit(real):
                continue
            try:
                with os.scandir(folder) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except OSError as error:
                self.found.problems.append(Problem(folder, f"cannot be listed: {error.strerror}"))
                continue
            has_file = any(entry.name == NAME for entry in entries)
            ignores = self.ignores.entering(folder, ignores, has_file=has_file)
            for entry in entries:
                path = Path(entry.path)
                if entry.name == NAME:
                    continue
                if entry.is_symlink():
                    self.links.append(path)
                elif entry.is_dir(follow_symlinks=False):
                    if self.skip_folder(path):
                        continue
                    if ignores.match(path, is_folder=True):
                        self.has_ignored = True
                    else:
                        todo.append((path, ignores))
                elif self.excluded(path):
                    continue
                elif ignores.match(path):
                    self.has_ignored = True
                elif entry.is_file(follow_symlinks=False):
                    self.file(path, real=os.path.join(real, entry.name))  # noqa: PTH118 - there may be many
                else:
                    self.found.note(path, "not read: no regular file")

    def tracked(self, folder: Path) -> None:
        """Take the files below a folder that git tracks although a ``.gitignore`` names them."""
        if not self.has_ignored or not any(disk.exists(up / ".git") for up in (folder, *folder.parents)):
            return
        from gpulint.git import tracked_though_ignored

        for path in tracked_though_ignored(folder):
            around = [up for up in path.parents if up.is_relative_to(folder) and up != folder]
            if not (path.is_symlink() or self.excluded(path) or any(map(self.skips, around))) and disk.is_file(path):
                self.file(path)

    def link(self, path: Path) -> None:
        """Follow a link that stays in the project; a loop ends because each real path is visited once."""
        is_folder = disk.is_dir(path)
        if not disk.exists(path) or self.excluded(path):
            return
        ignores = self.ignores.above(path)
        if ignores.match(path, is_folder=is_folder):
            return
        target = Path(disk.real(path))
        if not any(target.is_relative_to(top) for top in self.tops):
            if is_folder or _may_be_code(path):
                self.found.note(path, "not followed: a link out of the project")
        elif not is_folder:
            self.file(path)
        elif not self.skip_folder(path) and not self.skip_folder(target):
            self.folder(path, ignores)

    def excluded(self, path: Path, *, is_folder: bool = False) -> bool:
        if self.excludes is None or not path.is_relative_to(self.base):
            return False
        return self.excludes.match_file(path.relative_to(self.base).as_posix() + "/" * is_folder)

    def leaves_out(self, path: Path) -> bool:
        """Return whether the settings or the built-in list exclude a path of the project, or a folder that it is in."""
        inside = [folder for folder in path.parents if folder != self.top and folder.is_relative_to(self.top)]
        folders = [path, *inside] if disk.is_dir(path) else inside
        out = self.excluded(path) or any(
            folder.name in self.quiet | self.noted or self.excluded(folder, is_folder=True) or _is_environment(folder)
            for folder in folders
        )
        if out:
            self.found.note(path, "skipped: excluded")
        return out

    def skip_folder(self, path: Path) -> bool:
        if not self.skips(path):
            return False
        if path.name not in self.quiet and not self.excluded(path, is_folder=True):
            self.found.note(path, "skipped: third-party or generated code (name the folder to scan it)")
        return True

    def skips(self, folder: Path) -> bool:
        """The same without a note."""
        named = folder.name in self.quiet or folder.name in self.noted
        return named or self.excluded(folder, is_folder=True) or _is_environment(folder)

    def file(self, path: Path, *, explicit: bool = False, real: str | None = None) -> None:
        """Take a file; ``real`` is its path without links, where that is known."""
        if not explicit and not _may_be_code(path):
            return
        try:
            info = path.stat()
            disk.check_regular(path, info.st_mode)
            known = kind_of(path) is not None
            if not os.access(path, os.R_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            if not known and kind_of(path, disk.head(path, HEAD)) is None:
                if explicit:
                    message = "skipped: gpulint does not read this kind of file"
                    self.found.problems.append(Problem(path, message, is_error=False, is_warning=True))
                return
            if not self.first_visit(real or disk.real(path)):
                return
            if reason := _too_large(path, info.st_size):
                self.found.note(path, f"skipped: {reason}")
                return
        except OSError as error:
            self.found.problems.append(Problem(path, f"cannot be read: {error.strerror}"))
            return
        self.found.files.append(path)


def is_left_out(path: Path, config: Config, root: Path) -> bool:
    """Return whether a walk from ``root`` would leave out a file by its name alone. For files that are no longer on
    disk."""
    walk = _Walk(config, root)
    folders = [folder for folder in path.parents if folder != root and folder.is_relative_to(root)]
    return walk.excluded(path) or any(
        folder.name in walk.quiet | walk.noted or walk.excluded(folder, is_folder=True) for folder in folders
    )


def may_be_read(path: Path) -> bool:
    """Return whether a file of this name can be one that gpulint reads, a program's JSON settings included."""
    return kind_of(path) is not None or path.suffix.lower() not in _NEVER_SCRIPTS - {".json"}


def _may_be_code(path: Path) -> bool:
    return kind_of(path) is not None or path.suffix.lower() not in _NEVER_SCRIPTS


def _is_environment(folder: Path) -> bool:
    return disk.is_file(folder / "pyvenv.cfg")


def _too_large(path: Path, size: int) -> str:
    if size > disk.MAX_BYTES:
        return f"larger than {disk.MAX_BYTES // 1_000_000} MB"
    # Outputs of a notebook are long lines of base64 that nobody parses as code.
    if size > MAX_LINE and path.suffix != ".ipynb" and max(map(len, disk.read(path).split(b"\n"))) > MAX_LINE:
        return f"a line longer than {MAX_LINE // 1_000_000} MB"
    return ""
