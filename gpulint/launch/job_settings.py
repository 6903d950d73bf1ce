"""Environment variables and counts of a job: what its script, spec and scheduler set, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.tasks import Count, Task
from gpulint.finding import Place
from gpulint.launch.job import DeclaredCount, Setting
from gpulint.launch.program_launches import Launch

if TYPE_CHECKING:
    from gpulint.documents.shell import Script

_EXPORT = regex.compile(r"--export(?:=|\s+)(\S+)")


class SettingValues(Mapping[str, Setting]):
    """What a script itself sets for one of its launches."""

    def __init__(self, launch: Launch, document: Document) -> None:
        self._launch, self._document = launch, document

    def __getitem__(self, name: str) -> Setting:
        word = self._launch.env[name]
        return Setting(name, word.value, Place(self._document.path, word.span))

    def __iter__(self) -> Iterator[str]:
        return iter(self._launch.env)

    def __len__(self) -> int:
        return len(self._launch.env)


def declared_count(document: Document, number: Count | None) -> DeclaredCount | None:
    return (
        None
        if number is None
        else DeclaredCount(number.value, Place(document.path, number.span, number.text), number.text)
    )


def declared_settings(document: Document, task: Task) -> dict[str, Setting]:
    """Variables that the spec or image lists for the task."""
    return {item.name: Setting(item.name, item.value, Place(document.path, item.span)) for item in task.env}


def exported_settings(document: Document, script: Script) -> dict[str, Setting]:
    """Variables that ``#SBATCH --export=A=1`` sets."""
    found: dict[str, Setting] = {}
    for directive in script.directives:
        for match in _EXPORT.finditer(directive.text) if directive.leading else ():
            for part in match[1].split(","):
                name, equals, value = part.partition("=")
                if equals:
                    found[name] = Setting(name, value, Place(document.path, directive.span))
    return found


def scheduler_settings(document: Document, task: Task) -> dict[str, Setting]:
    """Variables that Slurm derives from the directives."""
    resources = task.resources
    nodes, tasks, gpus, cpus = resources.nodes, resources.tasks_per_node, resources.gpus, resources.cpus
    found: dict[str, Setting] = {}
    if task.system != "slurm":
        return found
    total = tasks.value * nodes.value if tasks and nodes and tasks.value and nodes.value else None
    for names, number, value in (
        (("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), nodes, nodes and nodes.value),
        (("SLURM_NTASKS_PER_NODE",), tasks, tasks and tasks.value),
        (("SLURM_NTASKS", "SLURM_NPROCS"), tasks, total),
        (("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"), gpus, gpus and gpus.value),
        (("SLURM_CPUS_PER_TASK",), cpus, cpus and cpus.value),
    ):
        if number is not None and value is not None:
            found |= {name: Setting(name, str(value), Place(document.path, number.span)) for name in names}
    return found


def script_settings(document: Document, script: Script, known: Mapping[str, str]) -> Iterator[Setting]:
    """Exported variables and those written before a command, in source order."""
    for item in script.assignments:
        if (item.exported or item.prefix) and not item.unset:
            value = None if item.value is None else script.expander(known).assigned(item)
            yield Setting(item.name, value, Place(document.path, item.span))


def sourced_settings(document: Document, known: Mapping[str, str]) -> dict[str, Setting]:
    """Variables that a sourced script leaves behind."""
    found: dict[str, Setting] = {}
    for script in document.scripts:
        expander = script.expander(known)
        for item in script.assignments:
            if item.name not in found and not item.local and not item.prefix:
                word = expander.variable(item.name)
                value = word.value if word is not None else None
                found[item.name] = Setting(item.name, value, Place(document.path, item.span))
    return found
