"""How many GPUs a launch has on one node, and how many processes it starts there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint.finding import Place
from gpulint.launch.job import DeclaredCount, Job, JobLaunch
from gpulint.launch.replaced_defaults import may_be_replaced
from gpulint.libraries.schedulers import batch_systems
from gpulint.numerals import whole

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project

_SHARING = frozenset({"ray", "determined", "lightning"})
"""Systems that start the processes of a job themselves."""
_STARTED_PER_TASK = frozenset({"azureml", "submitit"})
"""Systems that start a job's command as often on a node as the job has tasks there."""
PER_NODE = "gpus-per-node"
"""Text of a count that the settings state."""


def gpus_of(job: Job) -> int | None:
    """Return the GPUs of all nodes of a job; None if it does not say."""
    if job.gpus is None or job.gpus.value is None or job.task.resources.fractional:
        return None
    nodes = 1
    for count in (job.nodes, job.task.replicas):
        if count is not None and count.value is None:
            return None
        nodes = max(nodes, count.value or 1) if count is not None else nodes
    return job.gpus.value * nodes


def devices(value: str) -> tuple[str, ...]:
    """Devices of ``CUDA_VISIBLE_DEVICES``; an invalid index hides those after it, as CUDA has it."""
    found: list[str] = []
    for entry in value.split(","):
        name = entry.strip()
        if not name or name.startswith("-") or not (name.isdecimal() or name.upper().startswith(("GPU-", "MIG-"))):
            break
        found.append(name)
    return tuple(found)


def visible(job: Job, start: JobLaunch, per_node: int | None = None) -> DeclaredCount | None:
    """GPUs that the processes of a launch can use on one node; None if nothing says, value None if it is unclear.

    ``per_node`` (the setting ``gpus-per-node``) counts for distributed launches of batch jobs that ask for no number.
    """
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        setting = start.env.get(name)
        if setting is not None:
            count = None if setting.value is None else len(devices(setting.value)) or None
            return DeclaredCount(count, setting.place, f"{name}={setting.value or ''}")
        if elsewhere := job.settings.get(name):
            return DeclaredCount(None, elsewhere[0].place, name)
    for level in start.launch.levels:
        given = level.options.get("gpus") if level.row.image else None
        if given is not None and given.value != "all":
            return DeclaredCount(whole(given.value), start.place, f"--gpus {given.text}")
    own = start.launch.gpus
    if job.gpus is None and start.launch.one_set is not None:
        gpus = start.launch.one_set[1]
        return DeclaredCount(gpus.value, start.place, gpus.text)
    if own is not None and not start.launch.in_sets and job.gpus is None:
        return DeclaredCount(own.value, start.place, own.text)
    if (
        job.gpus is None
        and per_node
        and job.task.system in batch_systems(job.document.models)
        and start.launch.distributed
    ):
        return DeclaredCount(per_node, job.place, PER_NODE)
    return None if job.task.resources.fractional else job.gpus


def processes(project: Project, job: Job, start: JobLaunch) -> tuple[int, Place | None] | None:
    """Processes on one node and where that number is written (None: implied); None if unknown or one for each GPU."""
    one_set = start.launch.one_set if job.gpus is None else None
    count = one_set[0] if one_set is not None else start.launch.processes_per_node
    if count is None and start.config is not None:
        return _configured(project, start.config)
    if job.task.system in _SHARING or count is None or count.all_gpus or count.value is None:
        return None
    if job.task.system in _STARTED_PER_TASK and job.tasks_per_node is not None:
        return _times(count.value, job.tasks_per_node)
    if job.task.system == "kubernetes" and job.tasks_per_node is not None:
        return None
    named = start.launch.command.argv[:1]
    if (count.from_default and may_be_replaced(project, job, start, count.span)) or any(
        word.from_default and may_be_replaced(project, job, start, word.span) for word in named
    ):
        return None
    return count.value, None if count.implicit else Place(start.document.path, count.span)


def _times(count: int, tasks: DeclaredCount) -> tuple[int, Place | None] | None:
    return None if tasks.value is None else (count * tasks.value, tasks.place)


def _configured(project: Project, path: Path) -> tuple[int, Place | None] | None:
    """Return what an ``accelerate config`` file says."""
    config = getattr(project.document(path), "accelerate", None)
    if config is not None and config.single is not None:
        return 1, Place(path, config.single)
    if config is None or config.num_processes is None or config.num_processes.value is None:
        return None
    machines = config.num_machines.value if config.num_machines is not None else 1
    if not machines or config.num_processes.value % machines:
        return None
    return config.num_processes.value // machines, Place(path, config.num_processes.span)


def alone(job: Job, start: JobLaunch) -> bool:
    """Return whether nothing else of the job can use GPUs beside the launch, at the same time or out of our sight."""
    if start.launch.uncalled or start.launch.command.background:
        return False
    return not job.is_parallel
