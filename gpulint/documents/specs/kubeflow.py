"""Training operators on Kubernetes: Kubeflow's PyTorchJob, MPIJob and TrainJob, and Volcano's Job."""

from __future__ import annotations

from dataclasses import replace

from gpulint.documents.specs import kubernetes
from gpulint.documents.specs.accelerators import gpu_request
from gpulint.documents.specs.common import argv, count, cpus, env_list, pair_span
from gpulint.documents.tasks import EnvVar, Resources, Task
from gpulint.documents.yamltree import Node

_MPI = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "horovodrun", "orterun", "prun"})


def read(root: Node) -> list[Task]:
    """Tasks of an operator's job, with what the operator adds to its containers."""
    kind, group = root.at("kind").text, root.at("apiVersion").text.partition("/")[0]
    if group == "trainer.kubeflow.org" and kind == "TrainJob":
        return _train_job(root)
    if kind == "MPIJob" or (kind == "Job" and group == "batch.volcano.sh"):
        return _with_mpi_launcher(kubernetes.read(root), root)
    if kind == "PyTorchJob":
        return _pytorch_job(root)
    return []


def _pytorch_job(root: Node) -> list[Task]:
    """The operator hands ``nprocPerNode`` to torchrun in the environment."""
    key, value = root.at("spec").pair("nprocPerNode")
    tasks = kubernetes.read(root)
    if not value:
        return tasks
    variable = EnvVar("PET_NPROC_PER_NODE", value.text or None, pair_span(key, value))
    processes = count(root.at("spec"), "nprocPerNode")
    return [
        replace(task, env=(*task.env, variable), resources=replace(task.resources, tasks_per_node=processes))
        if task.role == "main"
        else task
        for task in tasks
    ]


def _train_job(root: Node) -> list[Task]:
    trainer = root.at("spec", "trainer")
    if not trainer:
        return []
    request = gpu_request(trainer.at("resourcesPerNode"))
    processes = count(trainer, "numProcPerNode")
    cores = cpus(trainer.at("resourcesPerNode", "limits"), "cpu") or cpus(
        trainer.at("resourcesPerNode", "requests"), "cpu"
    )
    resources = Resources(nodes=count(trainer, "numNodes"), tasks_per_node=processes, cpus=cores)
    if request:
        resources = replace(resources, gpus=request[0], fractional=request[1], vendor=request[2])
    return [
        Task(
            name=root.at("metadata", "name").text,
            span=trainer.span,
            resources=resources,
            scripts=argv(trainer.at("command"), trainer.at("args")),
            env=env_list(trainer.at("env")),
            image=trainer.at("image").text or None,
            replicas=count(trainer, "numNodes"),
            system="kubernetes",
        )
    ]


def _with_mpi_launcher(tasks: list[Task], root: Node) -> list[Task]:
    """A launcher without GPUs starts its processes on the workers: it holds what one worker holds, on as many nodes."""
    workers = [task for task in tasks if task.role == "main" and task.resources.gpus and task.resources.gpus.value != 0]
    if len(workers) == 1:
        resources = replace(workers[0].resources, nodes=workers[0].replicas, cpus=None)
    elif not workers and (gpus := count(root.at("spec"), "gpusPerNode")):
        resources = Resources(gpus=gpus)
    else:
        return tasks
    return [
        replace(task, resources=resources)
        if task.role == "main" and not task.resources.gpus and _starts_mpi(task)
        else task
        for task in tasks
    ]


def _starts_mpi(task: Task) -> bool:
    return any(command.name in _MPI for script in task.scripts for command in script.commands)
