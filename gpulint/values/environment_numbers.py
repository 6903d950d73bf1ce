"""Numbers that a program takes from its environment: a default beside one that a batch system sets in each job holds
only elsewhere."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.launch.job_index import JobIndex
from gpulint.semantic.points_to import Resolver

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import NodeRef

ENVIRONMENT = frozenset({"os.environ.get", "os.getenv"})
_CORES = frozenset({"SLURM_CPUS_ON_NODE", "NSLOTS", "NCPUS", "PBS_NUM_PPN", "PBS_NP", "LSB_DJOB_NUMPROC"})
"""Variables for the cores of a job, which a batch system sets in each."""
_ASKED = frozenset({"SLURM_CPUS_PER_TASK"})
"""Variables that Slurm sets in jobs which ask for cores (``--cpus-per-task``)."""


def is_set_in_jobs(project: Project, name: str) -> bool:
    """Return whether a batch system sets a variable for the program, which then does not use its default: in all jobs,
    or in some of the tree that ask for what it says. Where the tree has no job of Slurm, those that people write may
    ask for it."""
    if name in _CORES:
        return True
    if name not in _ASKED:
        return False
    jobs = [job for job in project.fact(JobIndex).jobs() if job.task.system == "slurm"]
    return not jobs or any(job.cpus is not None for job in jobs)


def may_be_unset(project: Project, ref: NodeRef) -> bool:
    """Return whether an expression reads a variable of the environment that nothing may set: what stands in for it
    (``os.environ.get("WORKERS") or 0``) is a default."""
    match ref.node:
        case ast.Call(args=[ast.Constant(value=str(name))]):
            names = project.fact(Resolver).call_names(ref.module, ref.node)
            return bool(names & ENVIRONMENT) and not is_set_in_jobs(project, name)
    return False
