"""Which files a run reads: a sorted walk that honours .gitignore, leaves third-party code alone and survives links."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.config import Config
from gpulint.documents import kind_of
from gpulint.finding import Problem

if TYPE_CHECKING:
    import pathspec

MAX_BYTES = 5_000_000
MAX_LINE = 1_000_000
HEAD = 4096

QUIET_EXCLUDES = (
    ".git", ".hg", ".svn", ".tox", ".nox", ".eggs", ".direnv", "__pycache__",
    ".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints", ".gpulint_cache",
)  # fmt: skip
"""Folders of tools, which nobody expects to be read."""
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
    folders = [path if path.is_dir() else path.parent for path in paths]
    common = Path(os.path.commonpath(folders))
    return next((folder for folder in (common, *common.parents) if is_project(folder)), common)


def is_project(folder: Path) -> bool:
    """Whether ``folder`` is the top of a project."""
    return any((folder / marker).exists() for marker in ("gpulint.toml", "pyproject.toml", ".git"))


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


def _spec(lines: Sequence[str]) -> pathspec.GitIgnoreSpec:
    import pathspec

    return pathspec.GitIgnoreSpec.from_lines(lines)


class _Walk:
    def __init__(self, config: Config, root: Path) -> None:
        self.top = root
        self.root = root.resolve()
        self.found = Discovery()
        self.seen: set[str] = set()
        self.links: list[Path] = []
        self.base = config.base
        self.quiet = frozenset(QUIET_EXCLUDES) if config.exclude is None else frozenset()
        self.noted = frozenset(NOTED_EXCLUDES) if config.exclude is None else frozenset()
        patterns = (*(config.exclude or ()), *config.extend_exclude)
        self.excludes = _spec(patterns) if patterns else None

    def run(self, paths: Sequence[Path]) -> Discovery:
        for path in paths:
            if path.is_dir():
                self.folder(path, _Ignores.above(path))
            else:
                self.file(path, explicit=True)
        # Links come last: a file that is reachable both ways is reported under its own name.
        while self.links:
            self.link(self.links.pop(0))
        self.found.files.sort(key=lambda path: path.parts)
        return self.found

    def first_visit(self, path: Path) -> bool:
        real = os.path.realpath(path)
        fresh = real not in self.seen
        self.seen.add(real)
        return fresh

    def folder(self, folder: Path, ignores: _Ignores) -> None:
        todo = [(folder, ignores)]
        while todo:
            folder, ignores = todo.pop()
            if not self.first_visit(folder):
                continue
            try:
                with os.scandir(folder) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except OSError as error:
                self.found.problems.append(Problem(folder, f"cannot be listed: {error.strerror}"))
                continue
            ignores = ignores.entering(folder, any(entry.name == ".gitignore" for entry in entries))
            for entry in entries:
                path = Path(entry.path)
                if entry.is_symlink():
                    self.links.append(path)
                elif entry.is_dir(follow_symlinks=False):
                    if not self.skip_folder(path) and not ignores.match(path, is_folder=True):
                        todo.append((path, ignores))
                elif entry.is_file(follow_symlinks=False) and not self.excluded(path) and not ignores.match(path):
                    self.file(path)

    def link(self, path: Path) -> None:
        """Follow a link that stays in the project; a loop ends because each real path is visited once."""
        target = path.resolve() if path.exists() else None
        if target is None or self.excluded(path) or _Ignores.above(path).match(path, is_folder=target.is_dir()):
            return
        if target.is_dir():
            if target.is_relative_to(self.root):
                if not self.skip_folder(path) and not self.skip_folder(target):
                    self.folder(path, _Ignores.above(path))
            else:
                self.found.note(path, "not followed: a link out of the project")
        elif target.is_file():
            self.file(path)

    def excluded(self, path: Path, *, is_folder: bool = False) -> bool:
        if self.excludes is None or not path.is_relative_to(self.base):
            return False
        return self.excludes.match_file(path.relative_to(self.base).as_posix() + "/" * is_folder)

    def leaves_out(self, path: Path) -> bool:
        """Do the settings or the built-in list exclude a path of the project, or a folder that it is in?"""
        inside = [folder for folder in path.parents if folder != self.top and folder.is_relative_to(self.top)]
        folders = [path, *inside] if path.is_dir() else inside
        out = self.excluded(path) or any(
            folder.name in self.quiet | self.noted or self.excluded(folder, is_folder=True) or _is_environment(folder)
            for folder in folders
        )
        if out:
            self.found.note(path, "skipped: excluded")
        return out

    def skip_folder(self, path: Path) -> bool:
        if path.name in self.quiet or self.excluded(path, is_folder=True):
            return True
        if path.name in self.noted or _is_environment(path):
            self.found.note(path, "skipped: third-party or generated code (name the folder to scan it)")
            return True
        return False

    def file(self, path: Path, *, explicit: bool = False) -> None:
        try:
            info = path.stat()
            if not explicit and not stat.S_ISREG(info.st_mode):
                return
            known = kind_of(path) is not None
            if not known and not explicit and path.suffix.lower() in _NEVER_SCRIPTS:
                return
            if not os.access(path, os.R_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            if not known and kind_of(path, _head(path)) is None:
                if explicit:
                    self.found.note(path, "skipped: no kind of file that gpulint reads")
                return
            if not self.first_visit(path):
                return
            if reason := _too_large(path, info.st_size):
                self.found.note(path, f"skipped: {reason}")
                return
        except OSError as error:
            self.found.problems.append(Problem(path, f"cannot be read: {error.strerror}"))
            return
        self.found.files.append(path)


def is_left_out(path: Path, config: Config, root: Path) -> bool:
    """Would a walk from ``root`` leave out a file by its name alone? For files that are no longer on disk."""
    walk = _Walk(config, root)
    folders = [folder for folder in path.parents if folder != root and folder.is_relative_to(root)]
    return walk.excluded(path) or any(
        folder.name in walk.quiet | walk.noted or walk.excluded(folder, is_folder=True) for folder in folders
    )


def may_be_read(path: Path) -> bool:
    """Can a file of this name be one that gpulint reads, a program's JSON settings included?"""
    return kind_of(path) is not None or path.suffix.lower() not in _NEVER_SCRIPTS - {".json"}


def _is_environment(folder: Path) -> bool:
    """Is the folder a virtual environment? A folder that may not be entered is none."""
    try:
        return (folder / "pyvenv.cfg").is_file()
    except OSError:
        return False


def _head(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(HEAD)


def _too_large(path: Path, size: int) -> str:
    if size > MAX_BYTES:
        return f"larger than {MAX_BYTES // 1_000_000} MB"
    # Outputs of a notebook are long lines of base64 that nobody parses as code.
    if size > MAX_LINE and path.suffix != ".ipynb" and max(map(len, path.read_bytes().split(b"\n"))) > MAX_LINE:
        return f"a line longer than {MAX_LINE // 1_000_000} MB"
    return ""


@dataclass(frozen=True, slots=True)
class _Ignores:
    """The .gitignore files that apply in a folder, innermost first: the first with an opinion decides, as in git."""

    specs: tuple[tuple[Path, pathspec.GitIgnoreSpec], ...] = ()

    @staticmethod
    def above(path: Path) -> _Ignores:
        """Ignores of the folders above ``path``, up to the repository's root; none if they ignore ``path`` itself.

        Whoever names an ignored folder wants it scanned.
        """
        ignores = _Ignores()
        for folder in reversed(list(_up_to_repository(path))):
            ignores = ignores.entering(folder, (folder / ".gitignore").is_file())
        return (
            _Ignores() if path.is_dir() and not path.is_symlink() and ignores.match(path, is_folder=True) else ignores
        )

    def entering(self, folder: Path, has_file: bool) -> _Ignores:
        if not has_file:
            return self
        try:
            lines = (folder / ".gitignore").read_bytes().decode("utf-8", "replace").splitlines()
            return _Ignores(((folder, _spec(lines)), *self.specs))
        except (OSError, ValueError):
            return self

    def match(self, path: Path, *, is_folder: bool = False) -> bool:
        for folder, spec in self.specs:
            verdict = spec.check_file(path.relative_to(folder).as_posix() + "/" * is_folder).include
            if verdict is not None:
                return verdict
        return False


def _up_to_repository(path: Path) -> Iterator[Path]:
    """The parents of ``path`` inside its repository; none outside of a repository."""
    if (path / ".git").exists():
        return iter(())
    parents = []
    for folder in path.parents:
        parents.append(folder)
        if (folder / ".git").exists():
            return iter(parents)
    return iter(())
