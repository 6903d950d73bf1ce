"""SkyPilot tasks: ``resources.accelerators``, ``setup``, ``run``, ``num_nodes``."""

from __future__ import annotations

from gpulint.documents.specs.accelerators import machine_request
from gpulint.documents.specs.common import count, env_map, pair_span, shell
from gpulint.documents.tasks import Count, Resources, Task
from gpulint.documents.yamltree import Node
from gpulint.numerals import whole
from gpulint.source import Span

_RESOURCES = (
    "accelerators",
    "cloud",
    "infra",
    "instance_type",
    "use_spot",
    "cpus",
    "memory",
    "any_of",
    "ordered",
    "disk_size",
)


def read(root: Node) -> list[Task]:
    """``setup`` as a task of role init and ``run`` as the main one, both holding the GPUs."""
    wanted = root.at("resources")
    if not (root.at("run") or root.at("setup")) or not any(wanted.at(key) for key in _RESOURCES):
        return []
    resources = _resources(wanted, root)
    env = env_map(root.at("envs"))
    image = wanted.at("image_id").text.removeprefix("docker:") or None
    workdir = root.at("workdir").text or None
    return [
        Task(
            name=root.at("name").text or key,
            span=root.at(key).span,
            role=role,
            resources=resources,
            scripts=scripts,
            env=env,
            image=image,
            working_dir=workdir,
            replicas=count(root, "num_nodes"),
            system="skypilot",
        )
        for key, role in (("setup", "init"), ("run", "main"))
        if (scripts := shell(root.at(key)))
    ]


def _resources(wanted: Node, root: Node) -> Resources:
    nodes = count(root, "num_nodes")
    key, value = wanted.pair("accelerators")
    if not value and (offers := wanted.at("any_of").elements or wanted.at("ordered").elements):
        return _any_of([offer.at("accelerators") for offer in offers], nodes)
    if not value:
        gpus, model = machine_request(wanted, "instance_type")
        return Resources(gpus=gpus, nodes=nodes, gpu_model=model)
    if value.is_null:
        return Resources(nodes=nodes)
    span = pair_span(key, value)
    choices = [_choice(item.text) for item in value.elements or [value] if item.kind == "scalar"]
    choices += [(name.text, number.integer) for name, number in value.pairs()]
    return _of(choices, span, f"accelerators: {value.text or value.fragment.text}", nodes)


def _any_of(offers: list[Node], nodes: Count | None) -> Resources:
    """Alternatives, of which SkyPilot takes one: GPUs are held for sure where every one of them has some."""
    if not all(offer.kind == "scalar" and offer.text for offer in offers):
        return Resources(nodes=nodes)
    return _of([_choice(offer.text) for offer in offers], offers[0].span, f"accelerators: {offers[0].text}", nodes)


def _of(choices: list[tuple[str, int | None]], span: Span, text: str, nodes: Count | None) -> Resources:
    models, counts = {model.lower() for model, _ in choices}, {number for _, number in choices}
    if any(model.startswith(("tpu", "inferentia", "trainium")) for model in models):
        return Resources(nodes=nodes)
    number = counts.pop() if len(counts) == 1 else None
    model = models.pop() if len(models) == 1 else None
    return Resources(gpus=Count(number, span, text), nodes=nodes, gpu_model=model)


def _choice(text: str) -> tuple[str, int | None]:
    """``A100:8`` as (model, count); one GPU where no count is written."""
    model, colon, number = text.partition(":")
    return model, whole(number) if colon else 1
