"""Files that tell that a program is run on Windows or macOS, where processes are spawned: batch files that start it,
modules that start it by the shell of Windows, environments that were saved there, and the output of a notebook; and
documentation that says how to set it up there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.launch.job_index import JobIndex
from gpulint.query import query
from gpulint.semantic.operating_systems import names_linux

if TYPE_CHECKING:
    from gpulint.project import Project

_BATCH = frozenset({".bat", ".cmd", ".ps1"})
_PACKAGES = regex.compile(r"(env(ironment)?|conda|requirements?)[\w.-]*\.(ya?ml|txt)", re.IGNORECASE)
"""Names of files that list packages."""
_SAVED_THERE = regex.compile(
    r"^prefix:[ \t]*([A-Za-z]:\\|/Users/)"
    r"|^[ \t]*-[ \t]*(vs20\d\d_runtime|win_inet_pton|wincertstore|ucrt|m2w64-[\w-]+|appnope|libcxx)[ \t]*="
    r"|^[ \t]*(-[ \t]*)?(pywin32|pywinpty|pywin32-ctypes|pypiwin32|win32[-_]setctime|pyreadline3?|wmi"
    r"|windows-curses|win[-_]inet[-_]pton|tensorflow-(intel|macos|metal)|appnope|pyobjc[\w-]*)[ \t]*[=@]=?[^;\n]*$",
    re.MULTILINE | re.IGNORECASE,
)
"""Folders of Windows and macOS, and packages of theirs that no marker (``; sys_platform == "win32"``) guards."""
_MARKS = (b"\xff\xfe", b"\xef\xbb\xbf")
"""The first bytes of what PowerShell and editors of Windows write (``pip freeze > requirements.txt``)."""
_OUTPUT = regex.compile(
    r"""["\]]/Users/\w[^"\n]{0,300}\.py|[A-Za-z]:\\\\(\\\\)?Users|\bdevice[\w ]{0,20}[:=]? ?\(?(type=)?'?mps\b"""
    r"""|\[Clang \d[\d.]{0,20} \(clang-\d|\[MSC v\.\d|\bmacOS-\d|\bDarwin Kernel Version\b"""
)
"""Output of a cell that tells where it ran."""
_OUTPUT_OF_MAC = regex.compile(
    r"[\"' (]/(opt/homebrew/|Library/Frameworks/Python|Users/\w[^\"\n]{0,200}/site-packages/)"
)
_CONDA_OF_MAC = regex.compile(r"[\"' (]/opt/(ana|mini)conda3/lib/python3")
"""Folders of packages in the output of a cell; the installer of Anaconda for macOS takes one that Linux may have."""
_FINDER = ".DS_Store"
_SHELL = frozenset({".sh", ".sbatch", ".slurm", ".pbs"})
_PROGRAM = regex.compile(r"\bpython\S{0,20} [^\n]{0,300}\.py\b")
_SHELL_OF_WINDOWS = regex.compile(
    r"""["']cmd(?:\.exe)?["'],\s*["']/[ck]\b|["']cmd(?:\.exe)? +/[ck]\b|["']powershell(?:\.exe)?["' ]"""
    r"""|\b(?:run|call|check_call|check_output|Popen|system|startfile)\(\s*\[?\s*f?r?["'][^"'\n]{1,200}\.(?:bat|cmd|ps1)\b""",
    re.IGNORECASE,
)
"""What a program runs that only Windows has."""
_ASKS = regex.compile(r"\bplatform\b|\bos\.name\b|\bsysconfig\b")
"""A program that does so on Windows, and something else on other systems."""
_TEXTS = regex.compile(r"(README|INSTALL|SETUP|USAGE|GETTING[_-]?STARTED|QUICK[_-]?START)[\w.-]*", re.IGNORECASE)
"""Names of files that say how to set a program up."""
_SET_UP = regex.compile(
    r"\bScripts[\\/]activate|^\s*set [A-Z_]+=|\$env:\w+\s*=|\bbrew install\b|(?<![\w-])[\w-]{1,80}\.(bat|ps1)\b"
    r"|^[#\s*_>-]*(Windows|macOS|MacOS|Mac OS|OS X)\b(?! (is|are|of)\b)"
    r"|([(/,#]\s*|\b(on|On|for|For|and|or|under|using) (an? )?)(Microsoft )?(Windows|macOS|MacOS|Mac OS|OS X)\b"
)
"""What a line of documentation says to those who run a program on Windows or macOS."""
_NOT_THERE = regex.compile(
    r"\b(not?|cannot|unsupported|untested|without|only|instead|wsl\d?)\b|n['\u2019]t\b", re.IGNORECASE
)
"""Words of a line that says that a program does not run there."""
_SHOWS_WINDOWS = regex.compile(
    r"\\Scripts\\activate|^[ \t]*`{3}(powershell|pwsh|ps1?|cmd|bat|batch)\b", re.MULTILINE | re.IGNORECASE
)
"""Commands of Windows in a text."""
_SHOWS_LINUX = regex.compile(
    r"bin/activate|^[ \t]*`{3}(bash|sh|shell|zsh|console)\b"
    r"|\b(apt|apt-get|ubuntu|linux|wsl2?|sbatch|slurm|docker|colab|kaggle)\b"
    r"|^[ \t$]*(export \w|source |\./\w|bash )",
    re.MULTILINE | re.IGNORECASE,
)
MAX_BYTES = 4_000_000
"""Most bytes of a file that are read."""
_SETTINGS = frozenset({".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".iml"})
_EDITORS = (".vscode", ".idea")
_DRIVES = re.compile(rb"""(?:^|[\s"'=:>,])(?:[A-Z]:(?:\\{1,2}|/)\w|/Users/\w)""", re.MULTILINE)
_LINUX = re.compile(
    rb"""(?:^|[\s"'=>,])/(?:home|root|data\w*|mnt|scratch\w*|workspace|content|kaggle|opt|work|usr)/""", re.MULTILINE
)
"""Folders of Windows and macOS, and of Linux, in files of settings."""
MAX_SETTINGS, MAX_SETTING = 100, 100_000
"""Most files of settings that are read for folders, and the bytes of the largest one."""


@query
def is_run_on_desktop(project: Project, path: Path) -> bool:
    """Return whether files of the tree tell that a program is run on Windows or macOS, and no job starts it."""
    if project.fact(JobIndex).launches_of(path):
        return False
    if path.suffix == ".ipynb" and regex.occurs(_OUTPUT, _text(project, path)):
        return True
    if _is_set_for_desktop(project):
        return True
    for folder in path.parents:
        if (
            _is_saved_on_desktop(project, folder)
            or _is_started_by_batch(project, folder)
            or _is_started_by_shell_of_windows(project, folder)
            or _is_documented_for_windows(project, folder)
        ):
            return True
        if folder == project.root:
            break
    return False


@query
def may_be_set_up_on_desktop(project: Project, path: Path) -> bool:
    """Return whether files tell that a program is run on Windows or macOS, or the documentation in a folder above it
    says how to set it up there, and no job starts it."""
    if is_run_on_desktop(project, path) or _was_run_on_mac(project, path):
        return True
    if project.fact(JobIndex).launches_of(path):
        return False
    folders = [folder for folder in path.parents if folder == project.root or folder.is_relative_to(project.root)]
    return any(_is_documented_for_desktop(project, folder) for folder in folders)


def _was_run_on_mac(project: Project, path: Path) -> bool:
    """Return whether the output of a notebook names folders of packages that macOS has, or that of Anaconda where the
    Finder has left a file beside it or at the root."""
    if path.suffix != ".ipynb":
        return False
    text = _text(project, path)
    if regex.occurs(_OUTPUT_OF_MAC, text):
        return True
    seen = any(project.exists(folder / _FINDER) for folder in (path.parent, project.root))
    return seen and regex.occurs(_CONDA_OF_MAC, text)


@query
def _is_documented_for_desktop(project: Project, folder: Path) -> bool:
    """Return whether documentation in a folder says how to set programs up on Windows or macOS."""
    texts = (_text(project, folder / name) for name in _files(project, folder) if _TEXTS.fullmatch(name))
    return any(_SET_UP.search(line) and not _NOT_THERE.search(line) for text in texts for line in text.splitlines())


@query
def _is_set_for_desktop(project: Project) -> bool:
    """Return whether the settings of the tree, or of the editor that it was written with, name folders of Windows or
    macOS, and neither they nor its programs name folders of Linux."""
    folders = [project.root / name for name in _EDITORS]
    editors = [folder / name for folder in folders for name in sorted(project.entries(folder))]
    paths = [path for path in (*editors, *project.files) if path.suffix in _SETTINGS and not project.is_test(path)]
    texts = [text for path in paths[:MAX_SETTINGS] if len(text := project.data(path)) <= MAX_SETTING]
    return any(map(_DRIVES.search, texts)) and not any(map(_LINUX.search, texts)) and not names_linux(project)


@query
def is_written_for_desktop(project: Project, path: Path) -> bool:
    """Return whether a file of settings, or one that starts a program, names folders of Windows or macOS, and none of
    Linux."""
    data = project.data(path)[:MAX_SETTING]
    return _DRIVES.search(data) is not None and _LINUX.search(data) is None


@query
def _is_saved_on_desktop(project: Project, folder: Path) -> bool:
    """Return whether an environment in a folder was saved on Windows or macOS."""
    files = [name for name in _files(project, folder) if _PACKAGES.fullmatch(name)]
    return any(
        project.data(folder / name).startswith(_MARKS) or regex.occurs(_SAVED_THERE, _text(project, folder / name))
        for name in files
    )


@query
def _is_started_by_batch(project: Project, folder: Path) -> bool:
    """Return whether batch files in a folder start programs, and no shell scripts stand beside them."""
    files = _files(project, folder)
    batch = [name for name in files if Path(name).suffix.lower() in _BATCH]
    shell = any(Path(name).suffix in _SHELL for name in files)
    return not shell and any(_PROGRAM.search(_text(project, folder / name)) for name in batch)


@query
def _is_started_by_shell_of_windows(project: Project, folder: Path) -> bool:
    """Return whether a module in a folder starts programs by the shell of Windows (``["cmd", "/c", "python a.py"]``)
    without asking for the system, and no shell scripts stand beside it."""
    files = _files(project, folder)
    if any(Path(name).suffix in _SHELL for name in files):
        return False
    paths = (folder / name for name in files if name.endswith(".py"))
    return any(project.matches(path, _SHELL_OF_WINDOWS) and not project.matches(path, _ASKS) for path in paths)


@query
def _is_documented_for_windows(project: Project, folder: Path) -> bool:
    """Return whether the README of a folder has commands of Windows, and names nothing of Linux."""
    texts = [_text(project, folder / name) for name in _files(project, folder) if _TEXTS.fullmatch(name)]
    return any(regex.occurs(_SHOWS_WINDOWS, text) for text in texts) and not any(
        regex.occurs(_SHOWS_LINUX, text) for text in texts
    )


def _files(project: Project, folder: Path) -> list[str]:
    return [name for name in sorted(project.entries(folder)) if project.is_file(folder / name)]


def _text(project: Project, path: Path) -> str:
    return project.data(path)[:MAX_BYTES].decode("utf-8", "replace")
