"""What a tree tells of the cluster it runs on: GPUs per node, folders that may be remote, tests, third-party code."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.records import dataclass, field
from gpulint.rule import Kind
from gpulint.transfers.storage import Storage, storage_of

if TYPE_CHECKING:
    from gpulint.config import Config
    from gpulint.documents.base import Document

_PATH = regex.compile(r"""(?<=["'\s=:])/[A-Za-z][\w.-]*(?:/[\w.{}$-]+)+""")
_DATA = regex.compile(
    r"mnt|media|vol(umes?)?|data\w*|home\w*|\w*scratch\w*|work|groups?|projects?|proj|shared?|storage|store|global|net"
    r"|fs\w*|raid|users?"
)
"""Top folders whose name says nothing of where they are; the rest is the system's, a container's or known."""
_MOST = 5
"""Most places or folders that are named."""


@dataclass
class Survey:
    """Places are ``path:line`` relative to the tree's root."""

    files: int = 0
    gpus: dict[int, list[str]] = field(default_factory=dict)
    """GPUs on one node -> where a job asks for so many."""
    remote: dict[str, str] = field(default_factory=dict)
    """Prefix of paths that are known to be remote -> the first place that uses it."""
    unsure: dict[str, str] = field(default_factory=dict)
    """The same for absolute paths that may be remote or local."""
    tests: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Folders of third-party code that are not scanned."""


def survey(root: Path, config: Config) -> Survey:
    """Look at the tree below ``root`` (an absolute folder); nothing of it is run."""
    from gpulint.discover import discover
    from gpulint.launch.job_index import JobIndex
    from gpulint.project import Project

    found = discover([root], config, root)
    project = Project(root, found.files, config)
    result = Survey(files=len(found.files))
    for job in project.fact(JobIndex).jobs():
        if job.gpus is not None and job.gpus.value and not project.is_test(job.gpus.place.path):
            place = f"{_relative(job.gpus.place.path, root)}:{job.gpus.place.span.line}"
            result.gpus.setdefault(job.gpus.value, []).append(place)
    for path in found.files:
        document = project.document(path)
        if document is not None and document.kind is not Kind.DOCKERFILE and not project.is_test(path):
            _look_for_paths(document, _relative(path, root), result)
    tests = Counter(
        path.name if path.parent == root else _relative(path.parent, root) + "/"
        for path in found.files
        if project.is_test(path)
    )
    result.tests = [name for name, _ in tests.most_common(_MOST)]
    skipped = [_relative(problem.path, root) + "/" for problem in found.problems if problem.path.is_dir()]
    result.skipped = sorted(skipped)[:_MOST]
    return result


def _relative(path: Path, root: Path) -> str:
    """A name that is valid in a comment of a TOML file, whatever the file system holds."""
    name = Path(os.path.relpath(path, root)).as_posix()
    return "".join(char if char.isprintable() else "\ufffd" for char in name)


def _look_for_paths(document: Document, name: str, result: Survey) -> None:
    for number, line in enumerate(document.source.text.splitlines(), 1):
        if line.lstrip().startswith("#") and not line.startswith(("#SBATCH", "#PBS", "#BSUB")):
            continue
        for match in _PATH.finditer(f" {line}"):
            first, second = match.group().split("/")[1:3]
            if not _DATA.fullmatch(first) and storage_of(match.group()) is not Storage.REMOTE:
                continue
            prefix = f"/{first}/{second}" if first in ("mnt", "media", "vol") else f"/{first}"
            storage = storage_of(match.group())
            if storage is not Storage.LOCAL:
                places = result.remote if storage is Storage.REMOTE else result.unsure
                places.setdefault(prefix, f"{name}:{number}")
