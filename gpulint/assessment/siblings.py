"""What other files of the tree say of how much a finding matters: a distributed version of the program, its data."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.jobs import jobs_running
from gpulint.launch.job_index import JobIndex
from gpulint.numerals import whole
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.rule import Kind
from gpulint.semantic.points_to import Resolver
from gpulint.training.collectives import wraps_itself
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import BindingKind, ModuleIndex
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_DISTRIBUTED = regex.compile(r"(^|[_-])(ddp|dist|distributed)([_-]|$)", re.IGNORECASE)
_VERSION = regex.compile(
    r"^(?P<name>(?:(?:train|training|trainer|fine[_-]?tune|main|run|test|eval|evaluate|code|src|scripts?|project)[_-]?)?)"
    r"(?:v|ver|version)[-_]?(\d{1,3})$",
    re.IGNORECASE,
)
"""Versions of a program by their names; those of models, such as ``inception_v3``, are beside each other."""
_DATA = regex.compile(r"\.(jsonl?|csv|tsv|txt)$")
_FOLDER = regex.compile(r"(\./)?\w[\w-]*(/[\w-]+)+/?")
_FOLDERS = ("data", "datasets")
SMALL = 4_000_000
"""Bytes of a text file up to which a pass over it takes seconds (assumed)."""


def has_ddp_program(subject: Subject) -> bool:
    """Return whether a program of the tree that is named for it trains with DDP (``train_ddp.py``)."""
    return any(path != subject.path for path in _ddp_programs(subject.project))


def is_superseded(subject: Subject) -> bool:
    """Return whether jobs start a distributed version of the program (``train_ddp.py`` beside ``train.py``), and none
    starts the program."""
    if subject.module is None or subject.jobs:
        return False
    return any(
        path.parent == subject.path.parent
        and _DISTRIBUTED.sub("", path.stem) == subject.path.stem
        and jobs_running(subject.project, path)
        for path in _ddp_programs(subject.project)
    )


def has_newer_version(subject: Subject) -> bool:
    """Return whether a file of the same name is in a folder, or a file beside it, whose name has a higher number
    (``v02/train.py`` of ``v01/train.py``, ``train_v2.py`` of ``train_v1.py``), and no job and nothing outside of the
    older version's folder uses the older one."""
    path, project = subject.path, subject.project
    if subject.module is None or subject.jobs or project.is_named(path):
        return False
    stem = _VERSION.search(path.stem)
    if stem is not None and stem["name"]:
        return _has_newer(project, path, stem, path.suffix, "") and not any(project.fact(GpuPrograms).users(path))
    for folder in path.parents:
        if folder == project.root or not folder.is_relative_to(project.root):
            break
        version = _VERSION.search(folder.name)
        if version is not None and _has_newer(project, folder, version, "", path.relative_to(folder).as_posix()):
            return all(user.is_relative_to(folder) for user in project.fact(GpuPrograms).users(path))
    return False


def _has_newer(project: Project, path: Path, version: re.Match[str], suffix: str, below: str) -> bool:
    """Return whether a file or folder beside one has its name with a higher number, and a file in it."""
    for name in project.entries(path.parent):
        other = _VERSION.search(name.removesuffix(suffix)) if name.endswith(suffix) else None
        if other is None or other["name"] != version["name"] or (whole(other[2]) or 0) <= (whole(version[2]) or 0):
            continue
        if project.is_file(path.parent / name / below if below else path.parent / name):
            return True
    return False


def only_notebooks_call(subject: Subject) -> bool:
    """Return whether only notebooks, which no job runs, name the function that a place is in, while jobs start programs
    that train."""
    module, node = subject.module, subject.node
    function = module.function(node) if module is not None and node is not None else None
    if module is None or function is None or subject.is_notebook or module.class_of(function) is not None:
        return False
    project = subject.project
    if function.name in module.calls_by_name:
        return False
    if any(
        project.kind(site.module.path) is not Kind.NOTEBOOK
        for site in project.fact(Resolver).call_sites(module, function)
    ):
        return False
    naming = [path for path in project.word_index.mentioning(word_of(function.name)) if path != module.path]
    notebooks = [path for path in naming if project.kind(path) is Kind.NOTEBOOK]
    return (
        bool(notebooks)
        and not any(_may_call(project, path, module, function.name) for path in naming if path.suffix == ".py")
        and not any(jobs_running(project, path) for path in notebooks)
        and _jobs_train(project)
    )


def _may_call(project: Project, path: Path, module: ModuleIndex, name: str) -> bool:
    """Return whether a file that imports a module may mean its function of a name, and not a method of an object."""
    where = project.module_at(path) if module.path in project.imported(path) else None
    if where is None:
        return module.path in project.imported(path)
    if name in where.named or name in where.aliases or "*" in where.top.bindings:
        return True
    for node in where.syntax.of(ast.Attribute):
        if node.attr == name and not (isinstance(node.value, ast.Name) and _is_made_here(where, node.value)):
            return True
    return False


def _is_made_here(module: ModuleIndex, name: ast.Name) -> bool:
    """Return whether a variable is assigned, and not imported."""
    bindings = module.scope(name).lookup(name.id)
    return bool(bindings) and all(one.kind is BindingKind.ASSIGN for one in bindings)


@query
def _jobs_train(project: Project) -> bool:
    loops = project.fact(LoopContexts)
    programs = dict.fromkeys(program for job in project.fact(JobIndex).jobs() for program in job.programs)
    modules = (project.module_at(program) for program in programs if project.kind(program) is Kind.PYTHON)
    return any(module is not None and loops.has_training_step(module) for module in modules)


@query
def _ddp_programs(project: Project) -> tuple[Path, ...]:
    named = (path for path in project.files if path.suffix == ".py" and _DISTRIBUTED.search(path.stem))
    modules = ((path, project.module_at(path)) for path in named)
    return tuple(path for path, module in modules if module is not None and wraps_itself(module, project))


def reads_small_file(subject: Subject) -> bool:
    """Return whether the module names a data file of the tree, and all that it names are small."""
    return subject.module is not None and _names_small_file(subject.project, subject.module)


@query
def _names_small_file(project: Project, module: ModuleIndex) -> bool:
    """Return whether the data files that a module names are small: those in the folders that it names, if there are
    any, and of those the ones to train on."""
    names = {text.rpartition("/")[2] for text in module.strings if _DATA.search(text)}
    folders = _named_folders(project, module)
    found = [folder / name for folder in folders for name in names & project.entries(folder)]
    found = found or [path for name in names for path in _data_files(project).get(name, ())]
    found = [path for path in found if "train" in path.name] or found
    return bool(found) and all(0 < len(project.data(path)) <= SMALL for path in found)


def _named_folders(project: Project, module: ModuleIndex) -> list[Path]:
    """The folders of the tree whose paths are written in a module: ``"data/hotel"``."""
    named = (text.strip("/") for text in sorted(module.strings) if _FOLDER.fullmatch(text))
    places = (base / text for text in named for base in dict.fromkeys((module.path.parent, project.root)))
    return [place for place in places if project.is_dir(place)]


@query
def _data_files(project: Project) -> dict[str, list[Path]]:
    folders = {project.root, *(path.parent for path in project.files)}
    folders |= {folder / name for folder in folders for name in _FOLDERS if name in project.entries(folder)}
    table: dict[str, list[Path]] = {}
    for folder in sorted(folders):
        for name in project.entries(folder):
            if _DATA.search(name):
                table.setdefault(name, []).append(folder / name)
    return table
