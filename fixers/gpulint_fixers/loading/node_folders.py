"""Folders on the node's own disk for copies of data, and what jobs say of the space there."""

from __future__ import annotations

from gpulint import regex
from gpulint.launch.job_index import JobIndex
from gpulint.libraries.gpu_libraries import Approach
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Kind
from gpulint.transfers.data_caches import DataCaches
from gpulint.workspace.module_index import ModuleIndex

_VARIABLE = regex.compile(r"\$\{?(?P<name>SLURM_TMPDIR|TMPDIR)\b")
_SPACE = regex.compile(
    r"^#SBATCH\s.*--tmp[= ](?P<size>\d+[KMGT]?)\b|\bephemeral-storage:\s*['\"]?(?P<limit>\d+[A-Za-z]*)"
)
"""What a job requests of the node's disk."""

_OF_SLURM = regex.compile(r"SLURM_(?:LOCALID|PROCID)")


@dataclass(frozen=True, slots=True)
class NodeFolder:
    """A folder for copies: Python's expression for it with the module ``os`` under a name, and the one for readers."""

    name: str
    variable: str = ""
    """The environment variable with the folder around it, which a job uses itself."""
    space: str = ""
    """What a job requests there."""
    private: bool = False
    """Whether each job has its own, which no other job has filled."""

    rank: str = ""
    """The environment variable that tells the processes of a node apart, where each has a folder of its own."""

    @property
    def ends_with_job(self) -> bool:
        """Whether what a job leaves there is removed when it ends: Slurm's own folder, or the disk of a pod."""
        return self.variable == "SLURM_TMPDIR" or (self.private and not self.variable)

    @property
    def shown(self) -> str:
        name = f"{self.name}-${self.rank}" if self.rank else self.name
        return f"${self.variable}/{name}" if self.variable else f"/tmp/{name}"

    def code(self, os: str) -> str:
        """Return the expression; ``os`` is how the module names Python's module of that name."""
        own = f'-" + {os}.environ.get("{self.rank}", "0")' if self.rank else '"'
        if not self.variable:
            return f'"/tmp/{self.name}{own}'
        return f'{os}.environ.get("{self.variable}", "/tmp") + "/{self.name}{own}'


def folder_for(project: Project, module: ModuleIndex, name: str) -> NodeFolder:
    """Return the folder of a name where the jobs that start a program keep temporary files, else in ``/tmp``."""
    variable = space = ""
    starts = project.fact(JobIndex).launches_of(module.path)
    for document in {start.job.document.path: start.job.document for start in starts}.values():
        for line in document.source.text.splitlines():
            if (found := _SPACE.search(line)) is not None:
                space = space or found["size"] or found["limit"]
            if not line.lstrip().startswith("#") and (named := _VARIABLE.search(line)) is not None:
                variable = variable or named["name"]
    private = bool(starts) and all(variable or start.job.document.kind is Kind.JOBSPEC for start in starts)
    return NodeFolder(name, variable, space, private)


def rank_variable(project: Project, module: ModuleIndex) -> str | None:
    """The variable that tells the processes of a node apart: "" if there is only one, None if none is known."""
    users = [project.fact(MultiGpuUse).of(user.path) for user in project.fact(DataCaches).with_users(module)]
    ways = {sign.approach for user in users for sign in user.parallel}
    if Approach.SPAWN in ways:
        return None
    distributed = any(start.start.launch.distributed for start in project.fact(JobIndex).launches_of(module.path))
    if not distributed and not ways & {Approach.PER_PROCESS, Approach.FRAMEWORK}:
        return ""
    return "SLURM_LOCALID" if any(user.mentions(_OF_SLURM) for user in users) else "LOCAL_RANK"
