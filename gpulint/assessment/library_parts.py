"""Parts of a library whose whole package lies beside the programs of a tree, which import a fraction of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.launch.job_index import JobIndex
from gpulint.libraries.gpu_libraries import Libraries
from gpulint.query import query
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

LEAST_MODULES = 100
"""Modules from which on a package is more than what somebody has written for some programs."""
TIMES = 4
"""How many times as many modules as there are outside of it."""
_OWN = frozenset({"setup.py", "setup.cfg", "pyproject.toml"})
"""What a tree that publishes a package has."""
_INIT = "__init__.py"


def is_unused_part(subject: Subject) -> bool:
    """Return whether no program of the tree reaches the file by imports, where it is in a copy of a library that is
    much larger than all that is beside it. What the program may be told to import by name counts as reached."""
    project, path = subject.project, subject.path
    name, _, inside = subject.place.partition("/")
    if not inside or subject.module is None or subject.jobs or b"__main__" in project.data(path):
        return False
    package = project.root / name
    if not _is_copied(project, package) or path in _reached(project, package):
        return False
    named = {path.stem, path.parent.name} - {name, "__init__"}
    words = (one for text in named for one in project.word_index.mentioning(word_of(text)))
    return not any(not one.is_relative_to(package) for one in words)


@query
def _is_copied(project: Project, package: Path) -> bool:
    """Return whether a folder holds a library as it was published, and the tree is not the library's own."""
    entries = project.entries(package)
    if _INIT not in entries or not _OWN.isdisjoint(project.entries(project.root)):
        return False
    known = project.models.derived(Libraries)
    published = "version.py" in entries or b"__version__" in project.data(package / _INIT)
    if not published and package.name not in known.gpu | known.beside:
        return False
    if package.name.lower() in project.root.name.lower().replace("-", "_"):
        return False
    modules = [path for path in project.files if path.suffix == ".py"]
    inside = sum(path.is_relative_to(package) for path in modules)
    return inside >= LEAST_MODULES and 0 < TIMES * (len(modules) - inside) <= inside


@query
def _reached(project: Project, package: Path) -> frozenset[Path]:
    """Return what of a package the programs beside it and those of jobs import, also within functions and through
    others, with the packages around each module."""
    beside = [path for path in project.files if path.suffix in (".py", ".ipynb") and not path.is_relative_to(package)]
    todo = [*beside, *(program for job in project.fact(JobIndex).jobs() for program in job.programs)]
    seen, files = {*todo}, {*project.files}
    while todo:
        path = todo.pop()
        around = (folder / _INIT for folder in path.parents if folder.is_relative_to(package))
        for found in (*project.imported(path), *around):
            if found not in seen and found in files:
                seen.add(found)
                todo.append(found)
    return frozenset(seen)
