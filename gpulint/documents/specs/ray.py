"""Ray: RayJob and RayService objects on Kubernetes, and the cluster launcher's own YAML."""

from __future__ import annotations

from dataclasses import replace

from gpulint.documents.specs import kubernetes
from gpulint.documents.specs.accelerators import machine_request
from gpulint.documents.specs.common import count, embedded_yaml, env_map, items_with_spans, shell
from gpulint.documents.tasks import Count, Resources, Task
from gpulint.documents.yamltree import Node
from gpulint.source import Span


def read(root: Node) -> list[Task]:
    """Containers of the cluster and, for a RayJob or RayService, the program that runs on its GPUs."""
    if root.at("kind").text.startswith("Ray") and root.at("apiVersion").text.startswith("ray.io"):
        return _kubernetes(root)
    if root.at("available_node_types") or (root.at("cluster_name") and root.at("provider", "type")):
        return _launcher(root)
    return []


def _kubernetes(root: Node) -> list[Task]:
    spec = root.at("spec")
    containers = [replace(task, system="ray") for task in kubernetes.read(root)]
    resources, replicas = _held(containers)
    name = root.at("metadata", "name").text or root.at("metadata", "generateName").text
    programs = []
    if entrypoint := spec.at("entrypoint"):
        runtime = embedded_yaml(spec.at("runtimeEnvYAML"))
        programs.append(
            Task(
                name=name,
                span=entrypoint.span,
                resources=resources,
                scripts=shell(entrypoint),
                env=env_map(runtime.at("env_vars")),
                working_dir=runtime.at("working_dir").text or None,
                replicas=replicas,
                packages=_packages(runtime),
                system="ray",
            )
        )
    for application in embedded_yaml(spec.at("serveConfigV2")).at("applications").elements:
        runtime = application.at("runtime_env")
        programs.append(
            Task(
                name=application.at("name").text or name,
                span=application.span,
                resources=resources,
                env=env_map(runtime.at("env_vars")),
                replicas=replicas,
                packages=_packages(runtime),
                system="ray",
            )
        )
    return programs + containers


def _held(containers: list[Task]) -> tuple[Resources, Count | None]:
    """What a program on the cluster can use: the GPU group's resources; of unlike groups only that there are GPUs."""
    groups = [
        task for task in containers if task.role == "main" and task.resources.gpus and task.resources.gpus.value != 0
    ]
    if not groups:
        return Resources(), None
    first = groups[0].resources
    if len(groups) == 1 or first.gpus is None:
        return replace(first, cpus=None), groups[0].replicas
    return replace(first, cpus=None, gpus=Count(None, first.gpus.span, first.gpus.text)), None


def _packages(runtime: Node) -> tuple[tuple[str, Span], ...]:
    """Packages of a ``runtime_env``: ``pip`` or ``uv`` (list, map, file name), ``conda`` dependencies."""
    found = []
    for key in ("pip", "uv"):
        node = runtime.at(key)
        found += (node.at("packages") if node.kind == "map" else node).elements or ([node] if node.text else [])
    for item in runtime.at("conda", "dependencies").elements:
        found += item.at("pip").elements or [item]
    return items_with_spans(found)


def _launcher(root: Node) -> list[Task]:
    """Set-up commands run on every node of the cluster, whose GPUs are then held."""
    resources = Resources()
    for _, kind in root.at("available_node_types").pairs():
        gpus, model = machine_request(kind.at("node_config"), "InstanceType")
        declared = count(kind.at("resources"), "GPU")
        if found := declared or gpus:
            resources = Resources(gpus=found, gpu_model=model)
            break
    tasks = []
    for key in ("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands"):
        commands = root.at(key)
        if scripts := shell(commands):
            held = Resources() if key == "head_setup_commands" else resources
            image = root.at("docker", "image").text or None
            tasks.append(Task(key, commands.span, "init", held, scripts, image=image, system="ray"))
    if not tasks and resources.gpus:
        tasks.append(Task(root.at("cluster_name").text, resources.gpus.span, resources=resources, system="ray"))
    return tasks
