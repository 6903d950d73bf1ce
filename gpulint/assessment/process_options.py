"""Programs that start one process unless an option asks for more."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.launch.job_index import JobIndex
from gpulint.semantic.path_conditions import conditions
from gpulint.values.constants import Constants

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.workspace.module_index import ModuleIndex

_SPAWNS = ("spawn", "start_processes")


def starts_one_process(subject: Subject) -> bool:
    """Return whether the module starts processes itself, each time only where an option that is 1 by default is larger
    (``if args.np > 1: mp.spawn(...)``), and no command of the tree starts it as several."""
    module = subject.module
    if module is None:
        return False
    spawns = [call for name in _SPAWNS for call in module.calls_by_name.get(name, ())]
    starts = subject.project.fact(JobIndex).launches_of(module.path)
    return (
        bool(spawns)
        and all(_is_off(subject, module, call) for call in spawns)
        and not any(item.start.launch.distributed for item in starts)
    )


def _is_off(subject: Subject, module: ModuleIndex, spawn: ast.Call) -> bool:
    constants = subject.project.fact(Constants)
    for test, holds in conditions(module, spawn):
        match test:
            case ast.Compare(left=count, ops=[ast.Gt() | ast.NotEq()], comparators=[ast.Constant(value=1)]) if holds:
                if constants.of(module, count).every(lambda value: value == 1):
                    return True
    return False
