"""Commands with which a program cannot start, as its own parser rejects them: ``--arch resnet51`` where ``choices=``
lists others, an option that it does not have, one that it requires and does not get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query
from gpulint.rule import Kind
from gpulint.values.literal_parsers import rejects

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.launch.job import JobLaunch
    from gpulint.project import Project

_UNCERTAIN = regex.compile(r"[$*?\[\]{}<>~@\\]|^-[\d.]|^--?$|^\.\.\.$|^#")
"""What shells, templates and people put something else for, and negative numbers, which argparse tells from options in
some releases only."""
_OF_LAUNCHERS = ("--local_rank", "--local-rank", "--deepspeed")
"""Options of launchers that may stand behind the program."""


@query
def is_rejected(project: Project, start: JobLaunch) -> bool:
    """Return whether the program of a launch certainly ends with an error of its parser. A path may mean another
    program of the same name, and words that are not known may be anything."""
    program, words = start.program, start.launch.args
    if program is None or program.suffix != ".py" or start.document.kind is not Kind.SHELL or start.launch.uncalled:
        return False
    texts = [word.value for word in words]
    known = [text for text in texts if text is not None and _UNCERTAIN.search(text) is None]
    if len(known) != len(texts) or any(text.startswith(_OF_LAUNCHERS) for text in known):
        return False
    module = project.module_at(program) if _is_only_one(project, program) else None
    return module is not None and rejects(project, module, known)


@query
def _is_only_one(project: Project, program: Path) -> bool:
    """Return whether no other file of the tree has the name of a program."""
    return sum(1 for path in project.files if path.name == program.name) == 1
