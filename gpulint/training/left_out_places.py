"""Places that no launcher of the tree lets its program reach: behind ``if not cfg.no_viewer:``, and all pass
``--no_viewer``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.launch.job_index import JobIndex
from gpulint.launch.option_parser import passed_options
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.values.constants import Constants
from gpulint.values.option_fields import declares, is_option

if TYPE_CHECKING:
    from gpulint.launch.job import Launched
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_ON = frozenset({"true", "1", "yes", "on"})
_OFF = frozenset({"false", "0", "no", "off"})


def is_left_out(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether each launcher sets a switch, a field of a class of options, so that a place does not run."""
    parts = [part for test, holds in conditions(module, node) for part in parts_of(test, holds)]
    asked = [(part, wanted) for part, wanted in parts if isinstance(part, ast.Attribute)]
    switches = [(part.attr, wanted) for part, wanted in asked if _is_switch(project, module, part)]
    starts = project.fact(JobIndex).launches_of(module.path) if switches else ()
    return bool(starts) and all(
        any(_value(start, name) is (not wanted) for name, wanted in switches) for start in starts
    )


def _is_switch(project: Project, module: ModuleIndex, part: ast.Attribute) -> bool:
    """Return whether an attribute is a field of a class of options, as its default or its name says."""
    if declares(module, part.attr):
        return True
    values = project.fact(Constants).of(module, part).values
    return any(isinstance(one.value, bool) and is_option(project, one.place) for one in values)


def _value(start: Launched, name: str) -> bool | None:
    """Return what a launcher says of a switch (``--no-viewer``, ``--cfg.viewer False``); None if nothing, or what is
    unknown."""
    found: bool | None = None
    for option, passed in passed_options(start.start.launch.args).items():
        text = (passed.value or "").lower()
        last = option.lstrip("-").rpartition(".")[2].replace("-", "_")
        if last == f"no_{name}" and text == "true":
            found = False
        elif last == name:
            found = True if text in _ON else False if text in _OFF else None
    return found
