"""Lines of Python in a script that look what is there before the program starts."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.workspace.module_index import last_name

if TYPE_CHECKING:
    from gpulint.launch.job import JobLaunch
    from gpulint.project import Project

_WORKS = regex.compile(
    r"fit|train|main|run|call|system|popen|exec|spawn|launch|generate|predict|evaluate|pipeline|load|pretrained"
    r"|parallel|distribut|^to$|cuda$",
    re.IGNORECASE,
)
"""Names of functions that may compute more than a moment."""


def only_looks(project: Project, start: JobLaunch) -> bool:
    """Return whether a launch is a few lines in the script that only print what they find:
    ``python -c "import torch; print(torch.cuda.is_available())"``."""
    if start.module is None or start.program is not None:
        return False
    program = project.fact(MultiGpuUse).started(start)
    if program is None or len(program.files) > 1 or program.unread(all_unknown=True):
        return False
    nodes = [*ast.walk(start.module.tree)]
    called = [last_name(node.func) or "" for node in nodes if isinstance(node, ast.Call)]
    return (
        not any(isinstance(node, (ast.For, ast.While, ast.With)) for node in nodes)
        and "print" in called
        and not any(map(_WORKS.search, called))
    )
