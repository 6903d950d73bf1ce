"""Options for the GPUs of a program that name one unless somebody asks for more (``--gpu_ids`` with the default 0)."""

from __future__ import annotations

import ast
from itertools import islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value, passed_as
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

MAX_MODULES = 40
"""Most modules in which the option is looked for."""
_ONE = regex.compile(r"\s*\d+\s*")


def names_one_gpu(subject: Subject) -> bool:
    """Return whether ``DataParallel`` gets its devices from an option whose default is one GPU, and no command that
    starts the program passes more."""
    module, node = subject.module, subject.node
    given = passed_as(node, "device_ids", 1) if isinstance(node, ast.Call) else None
    if module is None or given is None:
        return False
    origins = subject.project.fact(Resolver).points_to(module, given)
    names = {last_name(part) for part in (given, *(ref.node for ref in origins)) if isinstance(part, ast.expr)} - {""}
    options = [(home, call) for home in _around(subject.project, module) for call in _declared(home, names)]
    programs = {module.path, *subject.project.fact(GpuPrograms).users(module.path)}
    starts = [item for path in programs for item in subject.project.fact(JobIndex).launches_of(path)]
    return bool(options) and all(
        _is_one(keyword_value(call, "default"))
        and all(
            text is not None and _ONE.fullmatch(text) and keyword_value(call, "nargs") is None
            for start in starts
            for text, _ in start.option(_flags(call))
        )
        for _, call in options
    )


def _around(project: Project, module: ModuleIndex) -> Iterator[ModuleIndex]:
    """Yield a module, those that import it, and what these import: one of them declares the options."""
    users = (module.path, *project.fact(GpuPrograms).users(module.path))
    paths = dict.fromkeys(path for user in users for path in (user, *sorted(project.imported(user))))
    declaring = (path for path in paths if project.contains(path, b"add_argument"))
    found = (project.module_at(path) for path in islice(declaring, MAX_MODULES))
    yield from (one for one in found if one is not None)


def _declared(module: ModuleIndex, names: set[str]) -> list[ast.Call]:
    calls = module.calls_by_name.get("add_argument", ())
    return [call for call in calls if any(flag.lstrip("-").replace("-", "_") in names for flag in _flags(call))]


def _flags(call: ast.Call) -> tuple[str, ...]:
    return tuple(arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


def _is_one(default: ast.expr | None) -> bool:
    """``"0"``, ``0`` or ``[0]``."""
    match default:
        case ast.Constant(value=str(text)):
            return _ONE.fullmatch(text) is not None
        case ast.Constant(value=int(number)):
            return not isinstance(number, bool) and number >= 0
        case ast.List(elts=[one]):
            return _is_one(one)
    return False
