"""Tasks of the job formats that are rows of data (:mod:`gpulint.libraries.jobs`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.calls import programs
from gpulint.documents.specs import kubernetes
from gpulint.documents.specs.accelerators import GpuRequest
from gpulint.documents.specs.common import argv, cpus, env_list, env_map, items_with_spans, join, pair_span, shell
from gpulint.documents.specs.gpu_syntax import PARSERS, counted
from gpulint.documents.specs.lookup import Found, every, first, holds, text
from gpulint.documents.tasks import Count, EnvVar, Resources, Task
from gpulint.documents.yamltree import UNKNOWN
from gpulint.source import Span

if TYPE_CHECKING:
    from gpulint.documents.shell import Script
    from gpulint.documents.yamltree import Node
    from gpulint.libraries.jobs import Command, Format, Gpus

_MODEL_KEY = regex.compile(r"(?:model|tokenizer)(?:_name|_id|_name_or_path)$|^(?:hf_|pretrained_)model$")
"""Keys of a configuration whose value is a model."""
_OTHER_SHELL = regex.compile(
    r"^(?:pwsh|powershell|cmd|python\d*|perl|ruby|node|nu)\b|(?<![a-z])windows(?![a-z])", re.IGNORECASE
)
"""Shells and languages other than those of Unix, and labels of machines with Windows."""


def read(row: Format, root: Node) -> list[Task]:
    """Tasks of a document; empty if it is not of this format."""
    document = Found(root)
    if not all(holds(document, condition) for condition in row.requires):
        return []
    if any(holds(document, condition) for condition in row.elsewhere):
        return []
    if row.pods:
        return [_overlaid(row, document, task) for task in _pods(row, document)]
    items = (item for path in row.each for item in every(document, path))
    found = [
        (item, task)
        for item in items
        if all(holds(item, condition) for condition in row.where)
        for task in _tasks(row, item)
    ]
    return [task for _, task in found] if row.turns is None else _in_turns(row.turns, found)


def _in_turns(path: str, found: list[tuple[Found, Task]]) -> list[Task]:
    """Tasks that take turns on a machine: one that comes before a task with GPUs holds those of it, and uses none."""
    holders: dict[int, Task] = {}
    tasks: list[Task] = []
    for item, task in reversed(found):
        machine = first(item, path)
        gpus, key = task.resources.gpus, id(machine.node) if machine is not None else 0
        if machine is not None and gpus is not None and gpus.value != 0:
            holders[key] = task
        elif machine is not None and (holder := holders.get(key)) is not None:
            resources = replace(holder.resources, cpus=task.resources.cpus)
            task = replace(task, role="init", resources=resources)
        tasks.append(task)
    return tasks[::-1]


def _tasks(row: Format, item: Found) -> Iterator[Task]:
    """A task for each command of an item, or one without."""
    found = [(command, places) for command in row.commands if (places := _places(command, item))]
    task = Task(
        name=text(item, row.task) or row.name,
        span=pair_span(item.key, item.node) if item.key and item.node.kind == "map" else item.node.span,
        resources=_resources(row, item),
        env=_environment(row, item),
        image=_text(item, row.image).removeprefix(row.image_prefix) or None,
        working_dir=_text(item, row.working_dir) or None,
        replicas=_count(item, row.replicas or row.nodes),
        interactive=_span(item, row.interactive),
        packages=tuple(package for path in row.packages for package in _packages(item, path)),
        build=_text(item, row.build) or None,
        environment_file=None if _span(item, row.environment_file) is None else _text(item, row.environment_file),
        component=_text(item, row.component).removeprefix(row.component_prefix) or None,
        resources_of=(named, row.resource_kinds) if (named := _text(item, row.resources_of)) else None,
        carries_configuration=row.parameters is not None and first(item, row.parameters) is not None,
        named_models=tuple(_named_models(item, row.parameters)) if row.parameters is not None else (),
        requirements=_requirements(row, item),
        only_if_training=row.only_if_training,
        system=row.system or row.name,
    )
    if row.program is not None and all(command.role != "main" for command, _ in found):
        started = programs.script(row.program, item)
        yield task if started is None else replace(task, scripts=(started,))
    elif not found:
        yield task
    for command, places in found:
        span = places[0].node.span if item.outer is None else task.span
        yield replace(task, span=span, role=command.role, scripts=_scripts(command, places))


def _named_models(item: Found, path: str) -> Iterator[tuple[str, Span]]:
    """Values ``org/name`` of keys such as ``model_name``, wherever they are in a program's configuration."""
    from gpulint.libraries.hub_ids import is_model_id

    found = first(item, path)
    for node in found.node.walk() if found is not None else ():
        for key, value in node.pairs():
            if _MODEL_KEY.search(key.text) and "/" in value.text and is_model_id(value.text):
                yield value.text, value.span


def _places(command: Command, item: Found) -> list[Found]:
    """Return where a command is: all places of shell text, which run in turn, and the first of each path of words."""
    if command.syntax == "shell":
        found = (place for path in command.at for place in every(item, path) if not place.node.is_unknown)
        return [place for place in found if not _is_for_other_shell(command, place)]
    return [place for path in command.at if (place := first(item, path)) is not None]


def _is_for_other_shell(command: Command, place: Found) -> bool:
    """Return whether text is for PowerShell, the shell of Windows or another language."""
    if command.interpreter is None or place.outer is None:
        return False
    found = first(place.outer, command.interpreter)
    nodes = found.node.walk() if found is not None else ()
    return any(_OTHER_SHELL.search(node.text) is not None for node in nodes)


def _packages(item: Found, path: str) -> Iterator[tuple[str, Span]]:
    for place in every(item, path):
        yield from items_with_spans(node for node in place.node.elements or [place.node] if node.tag != UNKNOWN)


def _scripts(command: Command, places: list[Found]) -> tuple[Script, ...]:
    """Shell text, or lists of words; texts in place of lists are words of one shell line."""
    nodes = [place.node for place in places]
    if command.syntax == "shell":
        return tuple(script for node in nodes for script in shell(node))
    if any(node.elements for node in nodes):
        return argv(*nodes)
    from gpulint.documents.shell import parse_script

    fragments = [node.fragment for node in nodes if node.kind == "scalar"]
    return (parse_script(join(fragments, " ")),) if fragments else ()


def _resources(row: Format, item: Found) -> Resources:
    request = _gpus(row, item)
    numbers = Resources(
        nodes=_count(item, row.nodes),
        tasks_per_node=_count(item, row.processes_per_node),
        cpus=_cpus(item, row.cpus),
        gpu_model=_text(item, row.gpu_model).lower() or None,
    )
    if request is None:
        return numbers
    return replace(
        numbers,
        gpus=request.count,
        gpu_model=request.model or numbers.gpu_model,
        fractional=request.fractional,
        vendor=request.vendor,
    )


def _gpus(row: Format, item: Found) -> GpuRequest | None:
    for place in row.gpus:
        for found in every(item, place.at):
            request = PARSERS[place.syntax](found) if _is_value(place, found.node) else _open(place, found)
            if request is not None:
                value = request.count.value
                if place.most is not None and value is not None and value > place.most:
                    return replace(request, count=replace(request.count, value=None))
                return request
    return None


def _open(place: Gpus, found: Found) -> GpuRequest | None:
    """GPUs whose number is an expression of Python; a type of machine may as well be one without any."""
    return GpuRequest(counted(found, None)) if place.syntax in ("number", "some") else None


def _is_value(place: Gpus, node: Node) -> bool:
    """Return whether Python says what a number of GPUs is: what calls return is unknown."""
    return node.tag != UNKNOWN and (place.syntax in ("one", "k8s-resources", "named-for-gpus") or not node.is_result)


def _requirements(row: Format, item: Found) -> tuple[str, Span] | None:
    found = first(item, row.requirements) if row.requirements is not None else None
    return None if found is None or found.node.tag is not None else (found.node.text, found.node.span)


def _count(item: Found, path: str | None) -> Count | None:
    found = first(item, path) if path is not None else None
    return None if found is None else counted(found, found.node.integer)


def _cpus(item: Found, path: str | None) -> Count | None:
    found = first(item, path) if path is not None else None
    if found is None or found.outer is None or not found.key:
        return None
    return cpus(found.outer.node, found.key.value)


def _text(item: Found, path: str | None) -> str:
    return "" if path is None else text(item, path)


def _span(item: Found, path: str | None) -> Span | None:
    found = first(item, path) if path is not None else None
    return None if found is None else pair_span(found.key, found.node) if found.key else found.node.span


def _environment(row: Format, item: Found) -> tuple[EnvVar, ...]:
    found = first(item, row.env) if row.env is not None else None
    variables: tuple[EnvVar, ...] = ()
    if found is not None and not found.node.is_result:
        is_named = any(element.at("name") for element in found.node.elements)
        variables = env_list(found.node) if is_named else env_map(found.node)
    for name, path in row.env_from.items():
        if (place := first(item, path)) is not None:
            span = pair_span(place.key, place.node) if place.key else place.node.span
            variables += (EnvVar(name, place.node.text or None, span),)
    return variables


def _pods(row: Format, document: Found) -> list[Task]:
    tasks = kubernetes.read(document.node)
    if row.pods != "mpi":
        return tasks
    gpus = _gpus(row, document)
    return kubernetes.with_mpi_launcher(tasks, None if gpus is None else gpus.count)


def _overlaid(row: Format, document: Found, task: Task) -> Task:
    """A pod's task with what the operator's own fields say of the main containers."""
    if task.role != "main":
        return task
    processes = _count(document, row.processes_per_node)
    resources = task.resources if processes is None else replace(task.resources, tasks_per_node=processes)
    return replace(task, env=(*task.env, *_environment(row, document)), resources=resources)
