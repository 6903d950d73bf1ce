"""Programs that cannot start: an import leaves the top-level package that it is in, or imports need two folders as root
of which only one can be it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.assessment.module_files import by_stem
from gpulint.assessment.moved_imports import holds_for_programs
from gpulint.launch.job_index import JobIndex
from gpulint.libraries.gpu_libraries import Libraries
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import cyclic, query

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_INSTALLERS = ("setup.py", "setup.cfg", "pyproject.toml", ".idea", ".env")
"""What makes a folder a root of imports wherever a program is started: installations and editors."""
_PATHS = (b"sys.path", b"addsitedir")
MAX_MODULES = 60
"""Most modules that a program imports which are looked at."""


def leaves_package(subject: Subject) -> bool:
    """Return whether the module of a place, or each that calls the function around it, imports a module by a name
    that is shorter than the relative imports in it go up (``from common.bert import Bert``, where ``common/bert.py``
    has ``from ..external import layers``)."""
    return holds_for_programs(subject, _leaves)


def needs_two_roots(subject: Subject) -> bool:
    """Return whether a program of a folder with a README of its own imports some modules from its own folder and others
    from one above (``import dataset`` beside ``import copied.dataset``), and nothing adds folders to import from."""
    return holds_for_programs(subject, _has_two_roots)


@cyclic(False)
def _leaves(project: Project, module: ModuleIndex) -> bool:
    for name, path in _imported(project, module):
        other = project.module_at(path)
        if other is None or path == module.path:
            continue
        depth = name.count(".") + (path.name == "__init__.py")
        if name and not name.startswith(".") and any(level > depth for level in _levels(other)):
            return True
        if _leaves(project, other):
            return True
    return False


def _levels(module: ModuleIndex) -> Iterator[int]:
    """Yield how many packages the relative imports that a module runs in any case go up."""
    return (one.level for one in module.syntax.tree.body if isinstance(one, ast.ImportFrom) and one.level)


@query
def _imported(project: Project, module: ModuleIndex) -> tuple[tuple[str, Path], ...]:
    """Names of modules that a module imports in any case, and their files, where no other file can be meant."""
    found = []
    for name in _names(module):
        absolute = project.absolute(name, module.path) if name.startswith(".") else name
        path = project.module_path(absolute, module.path)
        if path is None or path.suffix != ".py" or (absolute == name and not is_only_module(project, name, path)):
            continue
        found.append((name, path))
    return tuple(found)


def _names(module: ModuleIndex) -> Iterator[str]:
    """Yield modules as imports name them: ``.unet``, ``models``, ``models.unet``."""
    for statement in module.syntax.tree.body:
        match statement:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=name, level=level, names=names):
                start = "." * level + (name or "")
                if name:
                    yield start
                joint = "" if start.endswith(".") else "."
                yield from (f"{start}{joint}{alias.name}" for alias in names if alias.name != "*")


def is_only_module(project: Project, name: str, path: Path) -> bool:
    """Return whether no package and no other file of the tree is a module of such a name."""
    parts = tuple(name.split("."))
    libraries = project.models.derived(Libraries)
    if parts[0] in sys.stdlib_module_names | libraries.gpu | libraries.no_gpu:
        return False
    return [one for one, place in by_stem(project).get(parts[-1], ()) if place[-len(parts) :] == parts] == [path]


@query
def _has_two_roots(project: Project, module: ModuleIndex) -> bool:
    folder = module.path.parent
    if folder == project.root or not any(one.upper().startswith("README") for one in project.entries(folder)):
        return False
    modules, roots = {module.path}, set[Path]()
    waiting = [module]
    while waiting:
        one = waiting.pop()
        for name, path in _imported(project, one):
            if not name.startswith("."):
                roots.add(path.parents[name.count(".") + (path.name == "__init__.py")])
            other = project.module_at(path) if path not in modules else None
            if other is not None:
                modules.add(path)
                waiting.append(other)
        if len(modules) > MAX_MODULES:
            return False
    if len(roots) < 2 or folder not in roots or project.files_with(b"PYTHONPATH"):
        return False
    if any(project.exists(root / name) for root in {*roots, project.root} for name in _INSTALLERS):
        return False
    programs = {*modules, *project.fact(GpuPrograms).users(module.path)}
    if any(project.contains(path, word) for path in programs for word in _PATHS):
        return False
    return not any(True for _ in project.fact(JobIndex).launches_of(module.path))
