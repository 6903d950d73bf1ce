"""Azure Machine Learning jobs (CLI v2): command jobs, sweeps and pipelines of them."""

from __future__ import annotations

import re

from gpulint import regex
from gpulint.documents.specs.accelerators import machine_request
from gpulint.documents.specs.common import count, env_map, shell
from gpulint.documents.tasks import Count, Resources, Task
from gpulint.documents.yamltree import MISSING, Node

_GPU_CLUSTER = regex.compile(r"(?<![a-z])(?:gpus?|[ahv]100|h200|t4|k80|n[cd]\d+\w*)(?![a-z])", re.IGNORECASE)
"""Names of clusters with GPUs; how many a node has, the name does not tell."""


def read(root: Node) -> list[Task]:
    """A task for the job, for a sweep's trial and for every step of a pipeline that has a ``command``."""
    schema = "azureml" in root.at("$schema").text.lower()
    if not schema and not (root.at("command") and root.at("environment") and (root.at("compute") or root.at("code"))):
        return []
    steps = [(key.text, step) for key, step in root.at("jobs").pairs()]
    tasks = [
        task for name, step in [(root.at("display_name").text, root), *steps] if (task := _command(step, root, name))
    ]
    tasks += [task for name, step in steps if (task := _command(step.at("component"), root, name, step))]
    if trial := _command(root.at("trial"), root, root.at("display_name").text):
        tasks.append(trial)
    return tasks


def _command(job: Node, root: Node, name: str, step: Node | None = None) -> Task | None:
    command = job.at("command")
    if not (scripts := shell(command)):
        return None
    holders = [holder for holder in (job, step, root) if holder is not None]
    resources = next((holder.at("resources") for holder in holders if holder.at("resources")), MISSING)
    spread = next((holder.at("distribution") for holder in holders if holder.at("distribution")), MISSING)
    gpus, model = machine_request(resources, "instance_type")
    gpus = gpus or _named(job, step, root)
    nodes = count(resources, "instance_count")
    image = job.at("environment", "image").text or job.at("environment").text
    return Task(
        name=job.at("name").text or name or "command",
        span=job.span,
        resources=Resources(
            gpus=gpus, nodes=nodes, tasks_per_node=count(spread, "process_count_per_instance"), gpu_model=model
        ),
        scripts=scripts,
        env=env_map(job.at("environment_variables")),
        image=image or None,
        working_dir=job.at("code").text or None,
        replicas=nodes,
        system="azureml",
    )


def _named(job: Node, step: Node | None, root: Node) -> Count | None:
    """Unknown many GPUs where the cluster that runs the job is named for them (``compute: azureml:gpu-cluster``)."""
    places = [(holder, "compute") for holder in (job, step, root) if holder is not None]
    for holder, key in (*places, (root.at("settings"), "default_compute")):
        if (found := count(holder, key)) is not None:
            named = _GPU_CLUSTER.search(holder.at(key).text)
            return Count(None, found.span, found.text) if named else None
    return None
