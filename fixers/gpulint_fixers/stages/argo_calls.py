"""Where the templates of an Argo workflow are called, and the call of another template before that."""

from __future__ import annotations

import re
from typing import Any

from gpulint.documents import Document
from gpulint.documents.yamltree import Node
from gpulint.fix import Edit
from gpulint.records import dataclass, field
from gpulint_fixers.edits.yaml_items import around_text, before_item, is_inside, plain, with_pair, with_word

_ALL_OF = re.compile(r"[\w.-]+(?:\s*&&\s*[\w.-]+)*")
_CANNOT = "the list of steps or tasks is not written with dashes, in lines of its own"


@dataclass
class Order:
    """What makes a template run after a new one."""

    edits: list[Edit] = field(default_factory=list)
    templates: list[dict[str, Any]] = field(default_factory=list)
    """Templates that are new as well."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A step or task, the list that it is in, and the group of steps that starts with it."""

    node: Node
    among: Node
    group: Node | None = None


def order(document: Document, spec: Node, called: dict[str, Any], stage: str, *, needs_inputs: bool) -> Order | str:
    """The calls of the template ``stage`` before those of the one called, or why their order is not certain."""
    name = str(called["name"])
    calls = [call for template in spec.at("templates").elements for call in _calls(template, name)]
    named = {id(node) for node in spec.walk() if node.at("template").text == name}
    if named != {id(call.node) for call in calls} or any(node.at("onExit").text == name for node in spec.walk()):
        return f"{name} is also called when a step or the workflow ends"
    if any("{{" in node.at("template").text for node in spec.walk()):
        return "the workflow computes which template it calls"
    is_entry = spec.at("entrypoint").text == name
    places = {(id(call.among), id(call.group)) for call in calls}
    if len(places) + is_entry > 1:
        return f"{name} is called from several places"
    if is_entry:
        return _before_entry(document, spec, called, stage, needs_inputs=needs_inputs)
    if not calls:
        return f"nothing in this file calls {name}"
    if not all(is_inside(call.node, call.among) for call in calls):
        return _CANNOT
    step = _step(calls, stage, needs_inputs=needs_inputs)
    if isinstance(step, str):
        return step
    return _before_steps(document, calls, step) if calls[0].group is not None else _before_tasks(document, calls, step)


def _calls(template: Node, name: str) -> list[_Call]:
    steps, tasks = template.at("steps"), template.at("dag", "tasks")
    found = [_Call(step, steps, group) for group in steps.elements for step in group.elements]
    found += [_Call(task, tasks) for task in tasks.elements]
    return [call for call in found if call.node.at("template").text == name]


def _step(calls: list[_Call], stage: str, *, needs_inputs: bool) -> dict[str, Any] | str:
    """The step or task that calls the stage when the calls begin, under their conditions and with their arguments."""
    kept = ("dependencies", "depends", "when", *(("arguments",) if needs_inputs else ()))
    values = [plain(call.node) for call in calls]
    if any(value.get("continueOn") for value in values):
        return "the workflow goes on after the template fails (`continueOn`), and may not without its data"
    first, *others = ({key: value[key] for key in kept if value.get(key)} for value in values)
    if any(other != first for other in others):
        return "it is called several times in different ways"
    if re.search(r"\{\{=?\s*item\b", str(first)):
        return "what it does differs between the items of a loop (`withItems`)"
    name = stage if others else f"{values[0].get('name')}-prepare"
    names = {one.at("name").text for group in calls[0].among.elements for one in (group.elements or [group])}
    return f"a step {name} exists already" if name in names else {"name": name, "template": stage, **first}


def _before_steps(document: Document, calls: list[_Call], step: dict[str, Any]) -> Order | str:
    assert calls[0].group is not None
    added = before_item(document, calls[0].group, [[step]])
    return Order([added]) if added is not None else _CANNOT


def _before_tasks(document: Document, calls: list[_Call], task: dict[str, Any]) -> Order | str:
    for call in calls:
        name = re.escape(call.node.at("name").text)
        asks = re.compile(rf"(?<![\w-]){name}\.(?!Succeeded)|!\s*{name}(?![\w-])")
        if any(asks.search(other.at("depends").text) for other in call.among.elements):
            return f"another task asks whether {call.node.at('name').text} failed"
    made = [before_item(document, calls[0].node, [task])]
    for call in calls:
        made += _wait(document, call, task["name"]) or [None]
    edits = [edit for edit in made if edit is not None]
    return Order(edits) if len(edits) == len(made) else _CANNOT


def _wait(document: Document, call: _Call, name: str) -> tuple[Edit, ...] | None:
    """Make a task wait for another one as well."""
    dependencies, depends = call.node.at("dependencies"), call.node.at("depends")
    if any(node and not is_inside(node, call.node) for node in (dependencies, depends)):
        return None
    if dependencies and dependencies.kind != "list":
        return None
    edit: Edit | None
    if dependencies:
        edit = with_word(document, dependencies, name)
    elif depends:
        simple = _ALL_OF.fullmatch(depends.text) is not None
        return around_text(document, depends, "" if simple else "(", f" && {name}" if simple else f") && {name}")
    else:
        enhanced = any(task.at("depends") for task in call.among.elements)
        edit = with_pair(document, call.node, "template", f"depends: {name}" if enhanced else f"dependencies: [{name}]")
    return (edit,) if edit is not None else None


def _before_entry(
    document: Document, spec: Node, called: dict[str, Any], stage: str, *, needs_inputs: bool
) -> Order | str:
    """A template of steps in the place of the one with which the workflow begins."""
    name = str(called["name"])
    inputs = called.get("inputs") or {}
    parameters = inputs.get("parameters") or []
    if inputs.keys() - {"parameters"} or not all(isinstance(one, dict) and one.get("name") for one in parameters):
        return f"{name}, the entrypoint, has inputs other than parameters"
    entry = f"prepare-and-{name}"
    if entry in {template.at("name").text for template in spec.at("templates").elements}:
        return f"a template {entry} exists already"
    passed = [{"name": one["name"], "value": f"{{{{inputs.parameters.{one['name']}}}}}"} for one in parameters]
    arguments = {"arguments": {"parameters": passed}} if passed else {}
    first = {"name": stage, "template": stage, **(arguments if needs_inputs else {})}
    steps = [[first], [{"name": name, "template": name, **arguments}]]
    node = spec.at("entrypoint")
    edits = around_text(document, node, "prepare-and-", "") if is_inside(node, spec) else None
    if edits is None:
        return "the name of the entrypoint is not written in one line"
    return Order([*edits], [{"name": entry, **({"inputs": inputs} if inputs else {}), "steps": steps}])
