"""Folders on the node's own disk for copies of data, and what jobs say of the space there."""

from __future__ import annotations

from gpulint import regex
from gpulint.launch.job_index import JobIndex
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Kind
from gpulint.workspace.module_index import ModuleIndex

_VARIABLE = regex.compile(r"\$\{?(?P<name>SLURM_TMPDIR|TMPDIR)\b")
_SPACE = regex.compile(
    r"^#SBATCH\s.*--tmp[= ](?P<size>\d+[KMGT]?)\b|\bephemeral-storage:\s*['\"]?(?P<limit>\d+[A-Za-z]*)"
)
"""What a job requests of the node's disk."""


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

    @property
    def shown(self) -> str:
        return f"${self.variable}/{self.name}" if self.variable else f"/tmp/{self.name}"

    def code(self, os: str) -> str:
        """Return the expression; ``os`` is how the module names Python's module of that name."""
        if not self.variable:
            return f'"/tmp/{self.name}"'
        return f'{os}.environ.get("{self.variable}", "/tmp") + "/{self.name}"'


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
