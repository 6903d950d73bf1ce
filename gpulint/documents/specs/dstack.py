"""dstack configurations: tasks, services and dev environments."""

from __future__ import annotations

import re

from gpulint import regex
from gpulint.documents.specs.common import count, env_map, pair_span, shell
from gpulint.documents.tasks import Count, Resources, Task
from gpulint.documents.yamltree import Node
from gpulint.numerals import whole

_TYPES = frozenset({"task", "service", "dev-environment"})
_MEMORY = regex.compile(r"[\d.]*\s*[KMGT]B?|\d*[KMGT]?B?\s*\.\.\s*[\d.]*\s*[KMGT]?B", re.IGNORECASE)
_NUMBERS = regex.compile(r"\d+|\d*\.\.\d*")


def read(root: Node) -> list[Task]:
    """The one run of a configuration; a dev environment's span for ``interactive`` is its ``type`` line."""
    kind = root.at("type").text
    if kind not in _TYPES or not any(
        root.at(key) for key in ("commands", "ide", "resources", "image", "python", "init")
    ):
        return []
    interactive = pair_span(*root.pair("type")) if kind == "dev-environment" else None
    return [
        Task(
            name=root.at("name").text or kind,
            span=root.span,
            resources=_resources(root),
            scripts=shell(root.at("init" if kind == "dev-environment" else "commands")),
            env=env_map(root.at("env")),
            image=root.at("image").text or None,
            working_dir=root.at("working_dir").text or None,
            replicas=count(root, "nodes") or count(root, "replicas"),
            interactive=interactive,
            system="dstack",
        )
    ]


def _resources(root: Node) -> Resources:
    nodes = count(root, "nodes")
    key, gpu = root.at("resources").pair("gpu")
    if not gpu or gpu.is_null:
        return Resources(nodes=nodes)
    span = pair_span(key, gpu)
    if gpu.kind == "map":
        number = gpu.at("count")
        name = gpu.at("name")
        value = number.integer if number else 1
        model = name.text or None
        vendor = gpu.at("vendor").text
    else:
        value, model, vendor = _short(gpu.text)
    if vendor in {"tpu", "google"} or (model or "").lower().startswith(("tpu", "v5", "v6")):
        return Resources(nodes=nodes)
    if not vendor:
        vendor = "amd" if (model or "").upper().startswith("MI") else "nvidia"
    text = f"gpu: {gpu.text or gpu.fragment.text}"
    return Resources(
        gpus=Count(value, span, text), nodes=nodes, gpu_model=model.lower() if model else None, vendor=vendor
    )


def _short(text: str) -> tuple[int | None, str | None, str]:
    """(count, model, vendor) of ``A100:80GB:2``, ``24GB``, ``amd:MI300X:8`` or ``2``; a range of counts is None."""
    value: int | None = 1
    model, vendor = None, ""
    for part in (part.strip() for part in text.split(":")):
        if part.lower() in {"nvidia", "amd", "tpu", "intel", "tenstorrent"}:
            vendor = part.lower()
        elif _NUMBERS.fullmatch(part):
            value = whole(part)
        elif part and not _MEMORY.fullmatch(part):
            model = part if "," not in part else None
    return value, model, vendor
