"""Smaller systems: SageMaker training jobs, Determined experiments, Lightning workflows, Hydra's Slurm launcher."""

from __future__ import annotations

from gpulint import regex
from gpulint.documents.specs.accelerators import machine_request
from gpulint.documents.specs.common import argv, count, env_map, pair_span, shell
from gpulint.documents.tasks import Count, Resources, Task
from gpulint.documents.yamltree import MISSING, Node
from gpulint.numerals import whole

_LIGHTNING_MACHINE = regex.compile(r"(T4|L4|L40S|A10G|V100|A100|H100|H200|B200)(?:_SMALL)?(?:_X_(\d+))?")


def read(root: Node) -> list[Task]:
    """Tasks of whichever of these systems the document belongs to."""
    return _lightning(root) or _determined(root) or _submitit(root) or _sagemaker(root)


def _sagemaker(root: Node) -> list[Task]:
    """Maps with a ``ResourceConfig`` (CloudFormation, create-training-job, ACK controller with small initials)."""
    tasks: list[Task] = []
    if "esourceConfig:" not in root.written:
        return tasks
    for node in root.walk():
        if node.kind != "map":
            continue
        keys = {key.value.lower(): (key, value) for key, value in node.pairs()}
        if "resourceconfig" not in keys or "algorithmspecification" not in keys:
            continue
        config, algorithm = keys["resourceconfig"][1], keys["algorithmspecification"][1]
        small = keys["resourceconfig"][0].value.startswith("r")
        names = ("instanceType", "instanceCount") if small else ("InstanceType", "InstanceCount")
        image, start, arguments = (
            next((value for key, value in algorithm.pairs() if key.value.lower() == name), MISSING)
            for name in ("trainingimage", "containerentrypoint", "containerarguments")
        )
        gpus, model = machine_request(config, names[0])
        nodes = count(config, names[1])
        variables = keys["environment"][1] if "environment" in keys else MISSING
        name = keys["trainingjobname"][1].text if "trainingjobname" in keys else "training job"
        resources = Resources(gpus=gpus, nodes=nodes, gpu_model=model)
        scripts = argv(start, arguments)
        env = env_map(variables)
        system = "sagemaker"
        tasks.append(
            Task(name, node.span, "main", resources, scripts, env, image.text or None, None, nodes, system=system)
        )
    return tasks


def _determined(root: Node) -> list[Task]:
    slots = root.at("resources").pair("slots_per_trial")
    if not root.at("entrypoint") or not (slots[1] or root.at("searcher") or root.at("records_per_epoch")):
        return []
    entrypoint = root.at("entrypoint")
    # Up to 8 slots sit on one agent; how more are spread over agents is the cluster's business.
    number = count(root.at("resources"), "slots_per_trial")
    if number and number.value and number.value > 8:
        number = Count(None, number.span, number.text)
    image = root.at("environment", "image")
    return [
        Task(
            name=root.at("name").text,
            span=entrypoint.span,
            resources=Resources(gpus=number),
            scripts=argv(entrypoint) if entrypoint.elements else shell(entrypoint),
            env=env_map(root.at("environment", "environment_variables")),
            image=image.text or image.at("gpu").text or image.at("cuda").text or None,
            system="determined",
        )
    ]


def _lightning(root: Node) -> list[Task]:
    key, machine = root.pair("machine")
    match = _LIGHTNING_MACHINE.fullmatch(machine.text)
    if match is None or not (scripts := shell(root.at("run"))):
        return []
    gpus = Count(whole(match[2] or "1"), pair_span(key, machine), f"machine: {machine.text}")
    return [
        Task(
            name=root.at("name").text,
            span=root.at("run").span,
            resources=Resources(gpus=gpus, gpu_model=match[1].lower()),
            scripts=scripts,
            env=env_map(root.at("env")),
            image=root.at("image").text or None,
            system="lightning",
        )
    ]


def _submitit(root: Node) -> list[Task]:
    """``hydra.launcher`` of the submitit plugin, or that plugin's own config group file."""
    launcher = root.at("hydra", "launcher")
    if not launcher and "submitit" in root.at("_target_").text:
        launcher = root
    gpus = count(launcher, "gpus_per_node")
    if gpus is None:
        return []
    resources = Resources(
        gpus=gpus,
        nodes=count(launcher, "nodes"),
        tasks_per_node=count(launcher, "tasks_per_node"),
        cpus=count(launcher, "cpus_per_task"),
    )
    return [Task(launcher.at("name").text or "hydra launcher", launcher.span, resources=resources, system="slurm")]
