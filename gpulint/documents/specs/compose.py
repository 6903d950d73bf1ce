"""docker-compose files: one task per service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint.documents.specs.common import argv, env_map, join, pair_span
from gpulint.documents.tasks import Count, Resources, Task
from gpulint.documents.yamltree import Node

if TYPE_CHECKING:
    from gpulint.documents.shell import Script


def read(root: Node) -> list[Task]:
    """Services with an image or build; GPUs from device reservations, ``gpus`` or the nvidia runtime."""
    services = [
        (key, service) for key, service in root.at("services").pairs() if service.at("image") or service.at("build")
    ]
    return [
        Task(
            name=key.text,
            span=pair_span(key, service),
            resources=_resources(service),
            scripts=_command(service.at("entrypoint"), service.at("command")),
            env=env_map(service.at("environment")),
            image=service.at("image").text or None,
            working_dir=service.at("working_dir").text or None,
            system="compose",
        )
        for key, service in services
    ]


def _command(entrypoint: Node, command: Node) -> tuple[Script, ...]:
    """Compose splits a string as a shell would and runs it without one, so both forms are one command line."""
    from gpulint.documents.shell import parse_script

    strings = [node for node in (entrypoint, command) if node.kind == "scalar" and node.text.strip()]
    if not any(node.elements for node in (entrypoint, command)):
        return (parse_script(join([node.fragment for node in strings], " ")),) if strings else ()
    return argv(entrypoint, command)


def _resources(service: Node) -> Resources:
    for device in service.at("deploy", "resources", "reservations", "devices").elements:
        capabilities = {item.text for item in device.at("capabilities").elements}
        if "gpu" in capabilities or device.at("driver").text == "nvidia":
            return Resources(gpus=_device_count(device))
    key, gpus = service.pair("gpus")
    if gpus:
        return Resources(gpus=Count(gpus.integer, pair_span(key, gpus), f"gpus: {gpus.text}"))
    key, runtime = service.pair("runtime")
    if runtime.text == "nvidia":
        return Resources(gpus=Count(None, pair_span(key, runtime), "runtime: nvidia"))
    return Resources()


def _device_count(device: Node) -> Count:
    """``count`` (a number or ``all``), else the length of ``device_ids``, else all GPUs of the host."""
    key, number = device.pair("count")
    if number:
        return Count(number.integer, pair_span(key, number), f"count: {number.text}")
    key, ids = device.pair("device_ids")
    if ids.kind == "list":
        return Count(len(ids.children), pair_span(key, ids), f"device_ids: {ids.fragment.text.strip()}")
    return Count(None, device.span, "all GPUs of the host")
