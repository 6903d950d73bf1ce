"""Training that the jobs of a program leave out: it is behind ``if args.train:``, and no command says ``--train``."""

from __future__ import annotations

import ast
import re
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.shell_defaults import MAX_BYTES, texts
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.semantic.callers import is_on_each_way
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import NodeRef

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.launch.job import Launched
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

MAX_USERS = 20
"""Most programs whose commands are read."""
MAX_CALLS = 3
"""Calls between a place and the test that are followed."""
_TRAINS = regex.compile(r"(^|_)(do_)?(train|fit|training|finetune)$", re.IGNORECASE)
"""Switches for the training as a whole."""
_SEVERAL_WORDS = regex.compile(r"[@*]|arg|extra|opt|flag|param", re.IGNORECASE)
"""Names of variables that hold options."""


def is_left_out(subject: Subject) -> bool:
    """Return whether the place is part of a training for which a program has to be asked, and no command, note or
    configuration of the tree that starts it does."""
    module, node = subject.module, subject.node
    if module is None or node is None or subject.is_notebook or not subject.jobs or not subject.contexts:
        return False
    return is_on_each_way(subject.project, NodeRef(module, node), partial(_is_switched_off, subject.project), MAX_CALLS)


def _is_switched_off(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    parts = (part for test, holds in conditions(module, node) for part, wanted in parts_of(test, holds) if wanted)
    return any(isinstance(part, ast.Attribute) and _is_never_asked(project, module, part) for part in parts)


@query
def _is_never_asked(project: Project, module: ModuleIndex, switch: ast.Attribute) -> bool:
    """Return whether an option for the training is off, and all that starts the program leaves it so."""
    if not _TRAINS.search(switch.attr):
        return False
    known = project.fact(Constants).of(module, switch)
    if not known.values or not known.every(lambda value: not value):
        return False
    if any(value.source != "default" for value in known.values):
        return False
    programs = (module.path, *islice(project.fact(GpuPrograms).users(module.path), MAX_USERS))
    starts = [start for path in programs for start in project.fact(JobIndex).launches_of(path)]
    return bool(starts) and not any(map(_may_pass_more, starts)) and not _is_named(project, module, switch.attr)


def _may_pass_more(start: Launched) -> bool:
    """Return whether a command has words that may stand for options (``"$@"``, ``$EXTRA``)."""
    words = start.start.launch.args
    return any(
        not word.known and (_SEVERAL_WORDS.search(word.text) or before is None or not before.text.startswith("-"))
        for before, word in pairwise((None, *words))
        if word is not None
    )


@query
def _is_named(project: Project, module: ModuleIndex, option: str) -> bool:
    """Return whether a note, script or configuration of the tree says the option, or a text of the program beside
    other words (``usage: train.py --train``)."""
    whole = re.compile(rf"--{re.escape(option).replace('_', '[_-]')}(?![\w-])")
    parts = (part.value for part in module.syntax.of(ast.Constant))
    if any(isinstance(part, str) and len(part) > len(option) + 2 and whole.search(part) for part in parts):
        return True
    paths = dict.fromkeys((*texts(project), *(path for path in project.files if path.suffix not in (".py", ".pyc"))))
    return any(whole.search(project.data(path)[:MAX_BYTES].decode("utf-8", "replace")) for path in paths)
