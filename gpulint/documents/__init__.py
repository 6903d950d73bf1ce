"""Documents: files turned into syntax trees with exact spans, one module per kind."""

from __future__ import annotations

import re
from pathlib import Path

from gpulint import regex
from gpulint.documents.base import Document, Unreadable, decode
from gpulint.failures import Failure
from gpulint.finding import Problem
from gpulint.libraries import BUILT_IN, Models
from gpulint.rule import Kind

SHELL_SUFFIXES = frozenset(
    {".sh", ".bash", ".sbatch", ".slurm", ".lsf", ".pbs", ".job", ".qsub", ".ksh", ".zsh", ".env"}
)
_BY_SUFFIX = {".py": Kind.PYTHON, ".ipynb": Kind.NOTEBOOK, ".yml": Kind.JOBSPEC, ".yaml": Kind.JOBSPEC}
_BY_SUFFIX |= dict.fromkeys(SHELL_SUFFIXES, Kind.SHELL)
_BY_SUFFIX |= dict.fromkeys((".mk", ".smk", ".nf", ".tf"), Kind.WORKFLOW)
_BY_NAME = dict.fromkeys(("makefile", "gnumakefile", "snakefile"), Kind.WORKFLOW) | {".env": Kind.SHELL}
_CONDOR_SUFFIXES = frozenset({".sub", ".submit", ".condor", ".jdf", ".jds"})
_CONDOR = regex.compile(rb"^[ \t]*(?:executable|universe|request_\w+)[ \t]*=", re.MULTILINE | re.IGNORECASE)
"""HTCondor's submit files, whose suffixes other kinds of files have, too."""
_SHEBANG = regex.compile(rb"#![^\n]*?\b(python|bash|sh|zsh|ksh|dash)[\d.]*\b")
_DIRECTIVE = regex.compile(rb"^#(SBATCH|PBS|BSUB|\$ )", re.MULTILINE)
_DOCKERFILE = regex.compile(r"(^|[._-])(dockerfile|containerfile)([._-]|$)", re.IGNORECASE)

_POINTER = b"version https://git-lfs.github.com/spec/"
"""How what stands for a file begins that Git LFS has not fetched."""
POINTER = "a Git LFS pointer, not fetched: run `git lfs pull`"

__all__ = ["POINTER", "Document", "kind_of", "load", "undecodable"]


def kind_of(path: Path, head: bytes = b"") -> Kind | None:
    """Kind of a file by its name, else by the first bytes (shebang, scheduler directives); None if gpulint skips it."""
    kind = _BY_SUFFIX.get(path.suffix.lower())
    if kind is not None:
        return kind
    if (kind := _BY_NAME.get(path.name.lower())) is not None:
        return kind
    if _DOCKERFILE.search(path.name):
        return Kind.DOCKERFILE
    if path.suffix in _CONDOR_SUFFIXES and not head.startswith(b"#!") and _CONDOR.search(head):
        return Kind.WORKFLOW
    if path.suffix and not head.startswith(b"#!"):
        return None
    if shebang := _SHEBANG.match(head):
        return Kind.PYTHON if shebang.group(1) == b"python" else Kind.SHELL
    return Kind.SHELL if _DIRECTIVE.search(head) else None


def load(path: Path, data: bytes, kind: Kind | None = None, models: Models = BUILT_IN) -> Document:
    """The document of a file's bytes. Never raises for what the bytes hold: trouble is in ``document.problems``."""
    kind = kind or kind_of(path, data[:4096]) or Kind.PYTHON
    if data.startswith(_POINTER):
        document = _document_class(kind)(path, "")
        document.problems.append(_pointer(path))
        return document
    try:
        text, encoding = decode(data, kind)
        document = _document_class(kind)(path, text, encoding)
        document.models = models
        if kind is Kind.PYTHON and encoding == "utf-8":
            document.source.decode_from(data)  # as there may be thousands of them, and others hold their bytes
        return document
    except Exception as error:
        document = Document(path, "")
        document.kind = kind
        if isinstance(error, Unreadable):
            document.problem(str(error))
        else:
            document.failures.append(Failure(path, "reader", error))
        return document


def undecodable(path: Path, data: bytes) -> list[Problem]:
    """Return why a Python file holds no text, if it does not."""
    if data.startswith(_POINTER):
        return [_pointer(path)]
    try:
        decode(data, Kind.PYTHON)
    except Unreadable as error:
        return [Problem(path, str(error))]
    return []


def _pointer(path: Path) -> Problem:
    return Problem(path, POINTER, is_error=False, is_warning=True)


def _document_class(kind: Kind) -> type[Document]:
    """Import only what the kind at hand needs."""
    match kind:
        case Kind.PYTHON:
            from gpulint.documents.python import PythonDocument

            return PythonDocument
        case Kind.NOTEBOOK:
            from gpulint.documents.notebook import NotebookDocument

            return NotebookDocument
        case Kind.SHELL:
            from gpulint.documents.shell import ShellDocument

            return ShellDocument
        case Kind.JOBSPEC:
            from gpulint.documents.jobspec import JobSpecDocument

            return JobSpecDocument
        case Kind.DOCKERFILE:
            from gpulint.documents.dockerfile import DockerfileDocument

            return DockerfileDocument
        case Kind.WORKFLOW:
            from gpulint.documents.workflow import WorkflowDocument

            return WorkflowDocument
