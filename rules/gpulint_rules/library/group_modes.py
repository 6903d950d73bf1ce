"""Debug modes that only a group of processes switches on (``if distributed:``), which nothing of the tree starts."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.impact import Cost
from gpulint.launch.job_index import JobIndex
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, last_name

MAX_CALLS = 2
"""Calls from a program to the mode whose conditions are looked at."""
_OF_GROUP = regex.compile(r"(is_|use_)?(distributed|dist_initialized|is_initialized|is_dist_initialized)$")
_SIZE = regex.compile(r"(get_)?(world_size|num_processes)$")
_STARTS = (
    b"torchrun", b"distributed.launch", b"distributed.run", b"distributed/launch", b"accelerate", b"mpirun", b"mpiexec",
    b"srun", b"horovod", b"deepspeed", b"spawn", b"lightning", b"submitit", b"Process(", b"Popen", b"elastic",
)  # fmt: skip
"""What may start several processes, in any file of the tree."""


def cost_in_group(project: Project, module: ModuleIndex, call: ast.Call) -> Cost | None:
    """Return the cost of a mode that only a group of processes gets to, where nothing starts one; else None."""
    if _is_of_group(project, module, call, MAX_CALLS) and not _starts_groups(project):
        return Cost("debug-mode", assumed="assuming that several processes are started, which nothing here does")
    return None


def _is_of_group(project: Project, module: ModuleIndex, node: ast.AST, calls: int) -> bool:
    """Return whether a place, or each call of the function around it, stands below ``if distributed:``."""
    if any(
        _asks_for_group(part) and wanted
        for test, holds in conditions(module, node)
        for part, wanted in parts_of(test, holds)
    ):
        return True
    function = module.function(node)
    sites = project.fact(Resolver).call_sites(module, function) if function is not None and calls else ()
    return bool(sites) and all(_is_of_group(project, site.module, site.node, calls - 1) for site in sites)


def _asks_for_group(test: ast.expr) -> bool:
    """``distributed``, ``dist.is_initialized()``, ``args.world_size > 1``"""
    match test:
        case ast.Name() | ast.Attribute():
            return bool(_OF_GROUP.match(last_name(test)))
        case ast.Call(func=asked):
            return bool(_OF_GROUP.match(last_name(asked)))
        case ast.Compare(left=left, ops=[ast.Gt() | ast.NotEq()], comparators=[ast.Constant(value=1)]):
            asked = left.func if isinstance(left, ast.Call) else left
            return bool(_SIZE.match(last_name(asked)))
    return False


@query
def _starts_groups(project: Project) -> bool:
    """Return whether some file names a launcher of several processes, or a job starts several."""
    if any(project.files_with(text) for text in _STARTS):
        return True
    return any(
        (job.nodes is not None and job.nodes.value != 1)
        or (job.task.replicas is not None and job.task.replicas.value != 1)
        or any(start.launch.distributed for start in job.launches)
        for job in project.fact(JobIndex).jobs()
    )
