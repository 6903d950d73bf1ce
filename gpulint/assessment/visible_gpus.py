"""Programs that leave themselves one GPU: ``os.environ["CUDA_VISIBLE_DEVICES"] = args.gpu``, ``"0"`` by default."""

from __future__ import annotations

import ast
import re
from itertools import islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.gpu_signs import texts_around
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import stored
from gpulint.training.guards import Guards
from gpulint.values.constants import Constants

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpulint.assessment.subject import Subject
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

MAX_MODULES = 40
"""Most modules in which the variable is looked for."""
_VARIABLE = "CUDA_VISIBLE_DEVICES"
_NAME = _VARIABLE.encode()
_ONE = regex.compile(r"\s*\d+\s*")
_SEVERAL = regex.compile(
    rb"VISIBLE_DEVICES[\"']?\]?\s*[=,:]?\s*[\"'(]*\d+\s*,\s*\d"
    rb"|--?[\w-]*(gpus?|devices?)([-_]?ids?)?[= ]+[\"']?\d+[ ,]+\d",
    re.IGNORECASE,
)
"""A command or a setting with two GPUs or more."""


def leaves_one_gpu(subject: Subject) -> bool:
    """Return whether each program that runs the place sets the visible GPUs to one, or to an option that names one by
    default and in all commands of the tree."""
    module = subject.module
    return module is not None and not subject.is_notebook and _leave_one(subject.project, module.path)


@stored("programs with one visible GPU")
def _leave_one(project: Project, path: Path) -> bool:
    if not project.python_files_with(_NAME):
        return False
    users = project.fact(GpuPrograms).users
    around = [path, *islice(users(path), MAX_MODULES)]
    programs = [one for one in around if next(users(one), None) is None]
    return (
        bool(programs)
        and all(_leaves_one(project, program) for program in programs)
        and not any(_SEVERAL.search(text) for text in (project.data(path), *texts_around(project, path)))
    )


def _leaves_one(project: Project, program: Path) -> bool:
    """Return whether a program sets the variable, itself or by what it imports and calls, and to one GPU each time."""
    module = project.module_at(program)
    if module is None:
        return False
    naming = [program, *(path for path in sorted(project.imported(program)) if project.contains(path, _NAME))]
    modules = (project.module_at(path) for path in naming[:MAX_MODULES])
    values = [value for one in modules if one is not None for value in _settings(project, one, module)]
    return bool(values) and all(values)


def _settings(project: Project, module: ModuleIndex, program: ModuleIndex) -> Iterator[bool]:
    """For each time that a module sets the variable for a program: whether to one GPU."""
    for target, value, _ in module.stores.get("environ", []):
        match target:
            case ast.Subscript(slice=ast.Constant(value=name)) if name == _VARIABLE and value is not None:
                function = module.function(target)
                if function is None or function.name in program.calls_by_name:
                    yield not project.fact(Guards).is_conditional(module, target) and _is_one(project, module, value)


def _is_one(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    known = project.fact(Constants).of(module, value).constants
    return bool(known) and all(_ONE.fullmatch(str(one)) for one in known)
