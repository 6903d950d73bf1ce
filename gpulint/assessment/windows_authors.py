"""Programs for TensorFlow whose authors work on Windows, where it has found no GPU since version 2.11
(tensorflow.org/install/pip, "Windows Native")."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.notebook import NotebookDocument
from gpulint.query import query
from gpulint.semantic.operating_systems import names_linux

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_TENSORFLOW = frozenset({"tensorflow", "keras", "tensorflow_hub", "tensorflow_addons"})
_OTHERS = frozenset({"torch", "jax", "paddle", "mxnet", "cupy", "torch_directml"})
"""Frameworks that may use a GPU of Windows."""
_DRIVE = regex.compile(r"""^[^#\n]{0,200}['"][A-Za-z]:(\\{1,2}|/)\w""", re.MULTILINE)
"""A path with a drive, outside of comments."""
_SHOWN = regex.compile(r"\b[A-Za-z]:\\{1,4}(?:users|program|anaconda|python)", re.IGNORECASE)
"""The same in what a notebook shows."""
_GPU = regex.compile(
    r"(?<![a-z])(?:gpus?|cuda|cudnn|nvidia|geforce|[rg]tx|wsl2?|directml|colab|kaggle|docker|slurm)(?![a-z])"
    r"|tf\.(?:session|placeholder|contrib|compat\.v1)\b|tensorflow\.(?:contrib|compat\.v1)\b|fit_generator\("
    r"|configproto|/content/|google\.colab",
    re.IGNORECASE,
)
"""Words for a GPU, for another machine than the author's, and interfaces of older versions."""
_OLD = regex.compile(
    r"^[ \t-]*tensorflow(?:[_-](?:gpu|directml)\b|[\w-]{0,12}[ \t]*(?:==|<=?|~=)[ \t]*(?:1\.|2\.(?:\d|10)\b))",
    re.MULTILINE | re.IGNORECASE,
)
"""Requirements that name a version with such GPUs, or another package."""
_FOR_WINDOWS = regex.compile(
    r"^[ \t-]*(?:pywin32(?:-ctypes)?|pywinpty|pypiwin32|wmi|win32-setctime|tensorflow[-_]intel|vs20\d\d_runtime|vc"
    r"|winpty|vc14_runtime|windows-curses)[ \t]*(?:[=~<>!]{1,2}[ \t]*[\w.*=-]{1,40})?[ \t]*(?:#[^\n]*)?\r?$",
    re.MULTILINE | re.IGNORECASE,
)
"""Requirements that only Windows has, without a marker (``; sys_platform == "win32"``)."""
_PINNED = regex.compile(
    r"^[ \t-]*tensorflow(?:[-_](?:intel|cpu))?[ \t]*={1,2}[ \t]*(?:2\.(?:1[1-9]|[2-9]\d)|[3-9])\b",
    re.MULTILINE | re.IGNORECASE,
)
"""Requirements that name a version without such GPUs."""
_REQUIREMENTS = regex.compile(r"requirements[\w.-]*\.txt|environment[\w.-]*\.ya?ml")
_NOTES = (
    (regex.compile(r"readme(\.(md|rst|txt))?", re.IGNORECASE), _GPU),
    (regex.compile(r"requirements[\w.-]*\.txt|environment[\w.-]*\.ya?ml|pyproject\.toml|setup\.py|Pipfile"), _OLD),
    (regex.compile(r"Dockerfile|docker-compose\.ya?ml"), regex.compile(r"\S")),
)
"""Files beside the programs, and what in them speaks against the author's Windows."""
MAX_FILES, MAX_BYTES = 200, 200_000
"""Most files of a tree that are read for the machine that they name, and bytes of one at its start."""


def has_no_gpu_on_windows(subject: Subject) -> bool:
    """Return whether a program for TensorFlow is of a tree whose author works on Windows, as its paths or requirements
    tell, without WSL, another machine, a GPU or an older version named anywhere, and no job runs it."""
    module = subject.module
    if module is None or subject.jobs or subject.is_launcher:
        return False
    used = module.packages
    return not used.isdisjoint(_TENSORFLOW) and used.isdisjoint(_OTHERS) and _is_of_windows(subject.project)


@query
def _is_of_windows(project: Project) -> bool:
    """Return whether programs or notebooks of a tree name folders of Windows, or its requirements packages that only
    Windows has, and nothing of it another machine, a GPU or an older version of TensorFlow."""
    files = [path for path in project.python_files if not project.is_test(path)]
    notebooks = [*islice(project.notebooks(), MAX_FILES + 1)]
    if len(files) > MAX_FILES or len(notebooks) > MAX_FILES or names_linux(project):
        return False
    shown = [_shown(project, path) for path in notebooks]
    folders = {project.root, *(path.parent for path in files)}
    required = "\n".join(_requirements(project, folder) for folder in sorted(folders))
    requires = _FOR_WINDOWS.search(required) is not None
    if not (requires or any(project.matches(path, _DRIVE) for path in files) or any(map(_SHOWN.search, shown))):
        return False
    if requires and _PINNED.search(required):
        files = [path for path in files if not _uses_others(project, path)]
    named = any(project.matches(path, _GPU) for path in (*files, *notebooks))
    return not (named or any(map(_GPU.search, shown)) or any(_names_other(project, folder) for folder in folders))


def _shown(project: Project, path: Path) -> str:
    """The text that the cells of a notebook have printed."""
    document = project.document(path)
    return "\n".join(text for _, text in document.outputs) if isinstance(document, NotebookDocument) else ""


@query
def _names_other(project: Project, folder: Path) -> bool:
    """Return whether a README, requirements or an image of a folder name another machine or an older version."""
    for name in project.entries(folder):
        pattern = next((words for files, words in _NOTES if files.fullmatch(name)), None)
        if pattern is not None and pattern.search(text_of(project, folder / name)):
            return True
    return False


@query
def _requirements(project: Project, folder: Path) -> str:
    """The text of the requirements in a folder."""
    names = sorted(filter(_REQUIREMENTS.fullmatch, project.entries(folder)))
    return "\n".join(text_of(project, folder / name) for name in names)


def _uses_others(project: Project, path: Path) -> bool:
    """Return whether a program uses another framework, of which the GPU is no sign of one for TensorFlow."""
    module = project.module_at(path)
    return module is not None and module.packages.isdisjoint(_TENSORFLOW) and not module.packages.isdisjoint(_OTHERS)


def text_of(project: Project, path: Path) -> str:
    """Return the text at the start of a file, also as PowerShell writes it (``pip freeze > requirements.txt``)."""
    data = project.data(path)[:MAX_BYTES]
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    return data.decode("utf-16" if wide else "utf-8-sig", "replace")
