"""Options for the GPUs of a program that name one unless somebody asks for more (``--gpu_ids`` with the default 0)."""

from __future__ import annotations

import ast
import re
from itertools import islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.gpu_signs import texts_around
from gpulint.documents.call_syntax import keyword_value, passed_as
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import stored
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpulint.assessment.subject import Subject
    from gpulint.launch.job import Launched
    from gpulint.project import Project

MAX_MODULES = 40
"""Most modules in which the option is looked for."""
_ONE = regex.compile(r"\s*\d+\s*")
_COMMAND = (
    r"(?:\bpython[\d.]*\s[^\n|;&]{{0,300}}?|^[\s$>`!]*)(?<![\w-])(?:[\w.-]+/)*(?:{names})\b"
    r"(?P<args>(?:[ \t]+-[^\n|;&`#]*)?)"
)
"""A command that starts a program, with its options."""
_OPTION = r"(?<!\S)(?:{flags})(?:[ \t=]+([^-\s][^-\n]*))?"
"""What a command passes for an option: nothing, one value or several."""


def names_one_gpu(subject: Subject) -> bool:
    """Return whether ``DataParallel`` gets its devices from an option that names one GPU: by its default and in all
    commands that start the program, or without a default in all commands that the tree shows."""
    module, node, project = subject.module, subject.node, subject.project
    given = passed_as(node, "device_ids", 1) if isinstance(node, ast.Call) else None
    if module is None or given is None:
        return False
    origins = project.fact(Resolver).points_to(module, given)
    names = {last_name(part) for part in (given, *(ref.node for ref in origins)) if isinstance(part, ast.expr)} - {""}
    options = [(home, call) for home in _around(project, module) for call in _declared(home, names)]
    programs = (module.path, *project.fact(GpuPrograms).users(module.path))
    starts = [item for path in programs for item in project.fact(JobIndex).launches_of(path)]
    return bool(options) and all(
        all(_passes_one(start, call) for start in starts)
        and (
            _is_one(keyword_value(call, "default"))
            or (_has_no_default(call) and _is_always_shown_one(project, programs, _flags(call)))
        )
        for _, call in options
    )


def _passes_one(start: Launched, option: ast.Call) -> bool:
    """Return whether a command passes one GPU for an option, or nothing."""
    flags = _flags(option)
    if keyword_value(option, "nargs") is None:
        return all(text is not None and _ONE.fullmatch(text) for text, _ in start.option(flags))
    words = [word.value or "" for word in start.start.launch.args]
    given = [words[number + 1 : number + 3] for number, word in enumerate(words) if word in flags]
    one = [
        bool(values) and _ONE.fullmatch(values[0]) is not None and all(word.startswith("-") for word in values[1:])
        for values in given
    ]
    return all(one) and (bool(one) or not start.option(flags))


def _has_no_default(option: ast.Call) -> bool:
    match keyword_value(option, "default"):
        case None | ast.Constant(value=None):
            return True
    return False


@stored("commands with one GPU in an option")
def _is_always_shown_one(project: Project, programs: tuple[Path, ...], flags: tuple[str, ...]) -> bool:
    """Return whether the tree shows commands that start one of some programs, each with an option for one GPU."""
    names = "|".join(re.escape(path.name) for path in programs[:MAX_MODULES])
    command = re.compile(_COMMAND.format(names=names).encode(), re.MULTILINE)
    option = re.compile(_OPTION.format(flags="|".join(map(re.escape, flags))).encode())
    shown = [
        option.findall(match["args"])
        for text in texts_around(project, programs[0])
        for match in command.finditer(text.replace(b"\\\n", b" "))
    ]
    return bool(shown) and all(given and all(value.strip(b" \t\"'").isdigit() for value in given) for given in shown)


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
