"""Programs of jobs that neither train nor run a model: they load one, and print the names of its parameters."""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_CALLS = frozenset(
    "print format len range enumerate zip sorted list dict set tuple str int float bool repr type isinstance "
    "hasattr abs min max sum any all map filter open read write close join split strip startswith endswith "
    "replace append extend update items keys values pop get add exit basename dirname exists isfile isdir abspath "
    "makedirs mkdir glob listdir getenv dumps loads dump safe_load time perf_counter now strftime getLogger "
    "basicConfig info debug warning error ArgumentParser add_argument parse_args filterwarnings seed manual_seed "
    "manual_seed_all device is_available device_count current_device get_device_name get_device_properties "
    "memory_allocated to cuda cpu load save load_state_dict state_dict parameters named_parameters children "
    "named_children modules named_modules buffers named_buffers named numel dim size eval requires_grad_ no_grad "
    "item tolist numpy detach clone from_pretrained summary".split()
)
"""Functions and methods that take no time of a GPU, or some for once: they set up, load, look up, convert and print."""
_BASES = frozenset({"Module"})
_RUNS = ("Train", "Run", "Engine", "Experiment", "Pipeline", "Launch", "Process", "Popen", "Search", "Study")
"""Parts of names of classes that may do all the work when they are made."""
MAX_MODULES = 30
"""Most modules of the tree that are searched."""


def runs_no_model(subject: Subject) -> bool:
    """Return whether each program that the jobs of a script start is of the tree, and certainly takes no steps and runs
    no model."""
    project, jobs = subject.project, subject.jobs
    programs = {start.program for job in jobs for start in job.launches if start.script is None}
    return (
        subject.is_launcher
        and bool(programs)
        and all(job.complete and job.programs for job in jobs)
        and all(program is not None and _does_little(project, program) for program in programs)
    )


@query
def _does_little(project: Project, program: Path) -> bool:
    """Return whether all that a program calls, and all that runs when it imports modules of the tree, is known to take
    no time of a GPU."""
    imported = project.fact(MultiGpuUse).of(program).paths
    module = project.module_at(program)
    if module is None or len(imported) > MAX_MODULES or not _only_sets_up(project, module, (module.syntax.tree,)):
        return False
    others = [project.module_at(path) for path in imported]
    return all(other is not None and _only_sets_up(project, other, _at_import(other)) for other in others)


def _at_import(module: ModuleIndex) -> list[ast.AST]:
    """Return the statements that run when a module is imported, other than definitions."""
    return [
        one
        for one in module.syntax.tree.body
        if not isinstance(one, (*FUNCTIONS, ast.ClassDef))
        and not (isinstance(one, ast.If) and "__name__" in ast.unparse(one.test))
    ]


def _only_sets_up(project: Project, module: ModuleIndex, parts: Collection[ast.AST]) -> bool:
    whole = module.syntax.tree in parts
    defined = {one.name for one in module.syntax.tree.body if isinstance(one, FUNCTIONS)} if whole else set[str]()
    return all(
        _is_set_up(project, module, node, defined)
        for part in parts
        for node in walk(part)
        if isinstance(node, ast.Call)
    )


def _is_set_up(project: Project, module: ModuleIndex, call: ast.Call, defined: set[str]) -> bool:
    name = last_name(call.func)
    if name in _CALLS:
        return True
    if isinstance(call.func, ast.Name) and name in defined:
        return True  # its body is searched, too
    if not name[:1].isupper() or any(part in name for part in _RUNS):
        return False
    own = project.fact(Resolver).classes_of(module, call)
    return all(any(last_name(base) in _BASES for base in owner.bases) for _, owner in own)
