"""Azure Machine Learning jobs (CLI v2): command jobs, sweeps and pipelines of them."""

from __future__ import annotations

from gpulint.documents.specs.accelerators import machine_request
from gpulint.documents.specs.common import count, env_map, shell
from gpulint.documents.tasks import Resources, Task
from gpulint.documents.yamltree import MISSING, Node


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
