"""Requirements that name a build of PyTorch for the CPU: ``torch==2.1.0+cpu``, ``cpuonly``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.author_notes import says_gpu
from gpulint.assessment.windows_authors import text_of
from gpulint.query import query

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_FILES = frozenset({"requirements.txt", "environment.yml", "environment.yaml", "pyproject.toml", "Pipfile"})
"""Files of which a tree has one for all, unlike ``requirements-cpu.txt``."""
_CPU = regex.compile(
    r"^[^#\n]{0,80}\btorch[ \t]*={2,3}[ \t]*\d[\w.]{0,20}\+cpu\b"
    r"|^[ \t]*(?:-i|--(?:extra-)?index-url)[ =]{1,3}https?://download\.pytorch\.org/whl/cpu\b"
    r"|^[ \t]*-[ \t]*(?:pytorch::)?cpuonly\b|^[ \t]*-[ \t]*(?:conda-forge::)?pytorch-cpu\b",
    re.MULTILINE,
)
_OTHER = regex.compile(
    r"\bcu\d{2,3}\b|cudatoolkit|pytorch-cuda|pytorch-gpu|[\w-]-cu1\d|\bbitsandbytes\b|\bflash[-_]attn\b|\bxformers\b"
    r"|\b(?:streamlit|gradio|flask|fastapi|uvicorn|gunicorn|django|mangum)\b",
    re.IGNORECASE,
)
"""Builds for GPUs, and what serves a model that is trained elsewhere."""
_MARKED = regex.compile(r"^[^#\n]*\+cpu[^#\n]*;", re.MULTILINE)
"""A build for one of several systems."""
_OTHER_FILES = regex.compile(
    r"(?:requirements|environment)[\w.-]*(?:gpu|cuda|cu1\d)[\w.-]*|[\w.-]*Dockerfile[\w.-]*|docker-compose\.ya?ml"
)


def needs_cpu_build(subject: Subject) -> bool:
    """Return whether the requirements nearest above a program name a build of PyTorch for the CPU, nothing beside them
    speaks of a GPU, and no job runs it."""
    module, project = subject.module, subject.project
    if module is None or subject.jobs or subject.is_launcher or "torch" not in module.packages or says_gpu(subject):
        return False
    for folder in subject.path.parents:
        said = _is_for_cpu(project, folder)
        if said is not None or folder == project.root:
            return said is True
    return False


@query
def _is_for_cpu(project: Project, folder: Path) -> bool | None:
    """Return whether requirements in a folder name a build for the CPU, and no others; None if it has none."""
    entries = project.entries(folder)
    names = [name for name in entries if name in _FILES]
    if not names:
        return None
    text = "\n".join(text_of(project, folder / name) for name in names)
    if _OTHER.search(text) or _MARKED.search(text) or any(map(_OTHER_FILES.fullmatch, entries)):
        return False
    return _CPU.search(text) is not None
