"""Jobs whose program cannot start, as they start it by its path: Python looks for modules in the folder of the program,
not in the one above it, in which its own package is."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint.assessment.import_roots import is_only_module
from gpulint.assessment.kept_folders import own_jobs
from gpulint.assessment.shell_defaults import contents
from gpulint.query import query
from gpulint.rule import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpulint.assessment.subject import Subject
    from gpulint.launch.job import JobLaunch
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_STARTERS = frozenset({"python", "srun", "torchrun"})
"""What adds no folder itself from which modules are imported."""
_INSTALLERS = ("setup.py", "setup.cfg", "pyproject.toml")
_ADDS = r"PYTHONPATH|conda[- ]develop|add2virtualenv"
_PATHS = (b"sys.path", b"addsitedir", b"PYTHONPATH")


def finds_no_package(subject: Subject) -> bool:
    """Return whether each job around a finding, or that it names, only starts programs by their path that import their
    own package by its name (``python src/train.py`` with ``from src.data import Photos``), in a tree that starts them
    as modules elsewhere (``python -m src.train``)."""
    named = {place.path for place in subject.finding.related}
    jobs = own_jobs(subject) if subject.is_launcher else [job for job in subject.jobs if job.document.path in named]
    return bool(jobs) and all(job.complete and _all_fail(subject.project, job.launches) for job in jobs)


def _all_fail(project: Project, launches: tuple[JobLaunch, ...]) -> bool:
    starts = [start for start in launches if not start.launch.uncalled]
    return bool(starts) and all(_fails(project, start) for start in starts)


def _fails(project: Project, start: JobLaunch) -> bool:
    program, launch = start.program, start.launch
    if program is None or launch.module is not None or start.document.kind is not Kind.SHELL:
        return False
    if any(level.launcher not in _STARTERS for level in launch.levels) or launch.launcher not in _STARTERS:
        return False
    module = project.module_at(program)
    return module is not None and "PYTHONPATH" not in start.env and _misses_package(project, module)


@query
def _misses_package(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module imports its own package by its name, which is not to be found from its folder."""
    folder = module.path.parent
    for name in _absolute(module):
        path = project.module_path(name, module.path)
        if path is None or not is_only_module(project, name, path):
            continue
        root = path.parents[name.count(".") + (path.name == "__init__.py")]
        package = name.partition(".")[0]
        above = (root / package) in (folder, *folder.parents)
        if above and not any(project.exists(folder / one) for one in (package, f"{package}.py")):
            return _is_started_as_module(project, package) and not _adds_folders(project, root, root / package)
    return False


def _absolute(module: ModuleIndex) -> Iterator[str]:
    """Yield the modules that a module imports in any case, by the names of the packages above them."""
    for statement in module.syntax.tree.body:
        match statement:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if "." in alias.name)
            case ast.ImportFrom(module=str(name), level=0) if "." in name:
                yield name


def _is_started_as_module(project: Project, package: str) -> bool:
    """Return whether a script or note starts a module of a package by its name: ``torchrun -m src.train``."""
    command = re.compile(rf"(?<!\S)-m[ \t]+{re.escape(package)}\.\w")
    return any(command.search(text) for _, text in contents(project))


def _adds_folders(project: Project, root: Path, package: Path) -> bool:
    """Return whether the package may be installed, or something adds the folder above it to the search path."""
    if any(project.exists(folder / name) for folder in {root, project.root} for name in _INSTALLERS):
        return True
    if project.is_like_in_other_files(_ADDS.encode()) or any(re.search(_ADDS, text) for _, text in contents(project)):
        return True
    inside = (path for path in project.files if path.suffix == ".py" and package in path.parents)
    return any(project.contains(path, word) for path in inside for word in _PATHS)
