"""A first step of a pipeline of Azure ML that does what a command does before its program, and hands it on."""

from __future__ import annotations

import re
from typing import Any

from gpulint import regex
from gpulint.documents import Document
from gpulint.documents.specs.gpu_syntax import is_named_for_gpus
from gpulint.documents.yamltree import Node
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.libraries import jobs
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Kind
from gpulint.source import Span
from gpulint_fixers.edits.yaml_items import (
    NotPlainError,
    before_pair,
    is_inside,
    plain,
    with_lines,
    with_pair,
    with_value,
)
from gpulint_fixers.stages import azureml_files
from gpulint_fixers.stages.handing import Moved, divide
from gpulint_fixers.stages.parts import Part, Parts, read

_GIVEN = "prepared"
"""The output of the new step, and the input of the one with GPUs."""
_PLACEHOLDER = "azureml:cpu-cluster"
_OF_STEP = ("environment_variables", "identity")
_INPUT = regex.compile(r"\$\{\{\s*inputs\.(\w+)\s*\}\}")
_BELONGS = regex.compile(r"\$\{\{\s*(outputs\.\w+|search_space\.\w+)")
_TEMPLATE = regex.compile(r"(?<!\$)\{\{|\{%|<%")
_COMPUTE = re.compile(
    r"^[ \t]*(?:default_)?compute:[ \t]*[\"']?(azureml:[\w-]{0,60}cpu[\w-]{0,60})[\"']?[ \t]*(?:#.*)?$", re.MULTILINE
)
_MAX_TEXT = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """The step with GPUs, or the job that is to become one."""

    document: Document
    parts: Parts
    part: Part | None
    """None for a job of one command."""
    node: Node
    values: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the step."""
        return self.part.name if self.part is not None else azureml_files.name_of(self.node.at("command").text)

    @property
    def stage(self) -> str:
        """The name of the step before it."""
        return f"{self.name}{self.parts.row.suffix}"


def split(project: Project, document: Document, root: Node, row: jobs.Parts, span: Span) -> Fix | Declined:
    """Move the statements before the program to a step on a compute target without GPUs."""
    step = _step(document, root, row, span.line)
    if isinstance(step, str):
        return Declined(step)
    if reason := _refusal(project, step):
        return Declined(reason)
    code = document.path.parent / str(step.values.get("code") or ".")
    moved = divide(project, document, step.node.at("command"), span, code)
    if isinstance(moved, str):
        return Declined(moved)
    if found := _BELONGS.search(" ".join(moved.texts)):
        return Declined(f"it uses `{found[1]}`, which belongs to the job itself")
    count = len(moved.numbers)
    what = "the step" if count == 1 else f"{count} steps"
    for earlier in step.parts.before(step.part) if step.part is not None else ():
        if (made := _added_to(step, earlier, moved)) is not None:
            return Fix(
                f"move {what} before the program to the end of {earlier.name}, which has no GPUs and runs before; "
                "the job may only read what is handed on",
                Safety.UNSAFE,
                tuple(made),
            )
    compute = _compute(project, step)
    made = _inserted(step, _stage(step, moved, compute or _PLACEHOLDER), moved)
    if made is None:
        return Declined("only steps with keys in lines of their own are divided")
    chosen = (
        f"{compute}, a compute target without GPUs" if compute else f"`{_PLACEHOLDER}`: name one without GPUs there"
    )
    becomes = "" if step.part is not None else ", which makes the job a pipeline"
    return Fix(
        f"move {what} before the program to {step.stage}, a step on {chosen}{becomes}; the job may only read what is "
        "handed on",
        Safety.UNSAFE,
        tuple(made),
    )


def _step(document: Document, root: Node, row: jobs.Parts, line: int) -> _Step | str:
    parts = read(document, root, row)
    part = parts.at(line) if root.at("jobs") else None
    node = part.node if part is not None else root
    key, command = node.pair("command")
    if not command or not is_inside(command, node) or not key.span.line <= line <= command.span.end_line:
        return "the command is in a component or a trial, which other jobs may run as well"
    try:
        return _Step(document, parts, part, node, plain(node))
    except NotPlainError:
        return "the job has values that the file alone does not tell"


def _refusal(project: Project, step: _Step) -> str | None:
    text = step.document.source.text
    if len(text) > _MAX_TEXT or _TEMPLATE.search(text):
        return "the file is a template"
    if step.part is not None and (reason := step.parts.refusal(step.part)):
        return reason
    kind = str(step.values.get("type") or "command")
    if kind != "command" or "component" in str(step.values.get("$schema") or "").lower():
        return "the command is in a component or a trial, which other jobs may run as well"
    if not step.values.get("environment"):
        return "the environment of the command is given elsewhere"
    inputs = step.values.get("inputs") or {}
    if not isinstance(inputs, dict) or _GIVEN in inputs:
        return f"an input `{_GIVEN}` exists already"
    name = step.document.path.name
    if step.part is None and (user := _user(project, step.document, name)):
        return f"{user} runs the command of the file as a step"
    return None


def _user(project: Project, document: Document, name: str) -> str | None:
    """A file that takes another one for a component."""
    pattern = re.compile(rf"file:[\"']?[\w./-]*(?<![\w-]){re.escape(name)}\b")
    for path in project.files:
        if project.kind(path) is not Kind.JOBSPEC or path == document.path:
            continue
        data = project.data(path)
        if name.encode() in data and pattern.search(data.decode(errors="replace")):
            return path.name
    return None


def _compute(project: Project, step: _Step) -> str | None:
    """A compute target without GPUs that the pipeline or another file of the tree names."""
    root = step.parts.root
    here = [one.node.at("compute").text for one in step.parts.items if not one.holds_gpus]
    here += [root.at("settings", "default_compute").text]
    if found := next((name for name in here if name and not is_named_for_gpus(name)), None):
        return found
    for path in project.files:
        if project.kind(path) is Kind.JOBSPEC and b"azureml:" in (data := project.data(path)):
            for named in _COMPUTE.finditer(data.decode(errors="replace")):
                if not is_named_for_gpus(named[1]):
                    return named[1]
    return None


def _stage(step: _Step, moved: Moved, compute: str) -> dict[str, Any]:
    """The step, without its name."""
    command = moved.command(f"${{{{outputs.{_GIVEN}}}}}")
    inputs = step.values.get("inputs") or {}
    used = {name: inputs[name] for name in dict.fromkeys(_INPUT.findall(command)) if name in inputs}
    return {
        "type": "command",
        **({"code": step.values["code"]} if "code" in step.values else {}),
        "command": command,
        **({"inputs": used} if used else {}),
        "outputs": {_GIVEN: {"type": "uri_folder"}},
        "environment": step.values["environment"],
        **{key: step.values[key] for key in _OF_STEP if key in step.values},
        "compute": compute,
    }


def _taken(step: _Step, moved: Moved, giver: str) -> list[Edit] | None:
    """The edits that make the step with GPUs read what another one hands on."""
    given = _with_input(step, f"${{{{parent.jobs.{giver}.outputs.{_GIVEN}}}}}")
    if given is None:
        return None
    return [given, *_unused(step, moved), *moved.edits(f"${{{{inputs.{_GIVEN}}}}}")]


def _with_input(step: _Step, value: str) -> Edit | None:
    key, inputs = step.node.pair("inputs")
    if not key:
        return before_pair(step.document, step.node, "command", {"inputs": {_GIVEN: value}})
    if not is_inside(inputs, step.node) or inputs.kind != "map":
        return None
    if not inputs.fields:
        return with_value(step.document, step.node, "inputs", f"{{{_GIVEN}: '{value}'}}")
    if inputs.written.startswith("{"):
        return with_pair(step.document, inputs, "", f"{_GIVEN}: '{value}'")
    return before_pair(step.document, inputs, next(iter(inputs.fields)), {_GIVEN: value})


def _unused(step: _Step, moved: Moved) -> list[Edit]:
    """Edits that remove the inputs which only the statements that move have used, and which would be fetched."""
    inputs, source = step.node.at("inputs"), step.document.source
    kept = [text for number, text in enumerate(moved.chain.texts) if number not in moved.numbers]
    others = [node.text for node in step.node.at("environment_variables").walk()]
    used = {name for text in (*kept, *others) for name in _INPUT.findall(text)}
    gone = {name for text in moved.texts for name in _INPUT.findall(text)} - used
    if inputs.written.startswith("{"):
        return []
    pairs = [(key, value) for key, value in inputs.pairs() if key.text in gone and is_inside(value, inputs)]
    spans = [Span(key.span.line, 1, max(key.span.line, value.span.end_line) + 1, 1) for key, value in pairs]
    return [Edit(step.document.path, span, "") for span in spans if not source.line(span.line)[:1].strip()]


def _inserted(step: _Step, stage: dict[str, Any], moved: Moved) -> list[Edit] | None:
    taken = _taken(step, moved, step.stage)
    if taken is None:
        return None
    if step.part is None:
        whole = azureml_files.as_pipeline(step.document, step.node, taken, step.name, {step.stage: stage})
        return None if whole is None else [whole]
    added = before_pair(step.document, step.parts.root.at("jobs"), step.name, {step.stage: stage})
    return None if added is None else [added, *taken]


def _added_to(step: _Step, earlier: Part, moved: Moved) -> list[Edit] | None:
    """The statements at the end of a step that has ended before, if that has the same files and packages."""
    try:
        values = plain(earlier.node)
    except NotPlainError:
        return None
    if not isinstance(values, dict):
        return None
    same = all(values.get(key) == step.values.get(key) for key in ("code", "environment", *_OF_STEP))
    node, outputs = earlier.node.at("command"), earlier.node.at("outputs")
    command = moved.command(f"${{{{outputs.{_GIVEN}}}}}")
    if not same or not is_inside(node, earlier.node) or not outputs.fields or _GIVEN in outputs.fields:
        return None
    if _INPUT.search(command) or re.search(r"(?:^|[\s;&|(])(?:cd|exit|exec|set|trap)\b|\|\||<<", node.value):
        return None
    ended = _at_end(step.document, node, command)
    pair = {_GIVEN: {"type": "uri_folder"}}
    given = (
        with_pair(step.document, outputs, "", f"{_GIVEN}: {{type: uri_folder}}")
        if outputs.written.startswith("{")
        else before_pair(step.document, outputs, next(iter(outputs.fields)), pair)
    )
    taken = _taken(step, moved, earlier.name)
    return None if ended is None or given is None or taken is None else [ended, given, *taken]


def _at_end(document: Document, node: Node, command: str) -> Edit | None:
    """Add statements to a command: lines to a block of them, and words to any other text."""
    if node.style == "|":
        return with_lines(document, node, command if command.startswith("set -e") else f"set -e\n{command}")
    if (
        command.startswith("set -e")
        or (node.style == "'" and "'" in command)
        or (node.style == '"' and re.search(r"[\"\\]", command))
    ):
        return None
    at = node.start + len(node.written.rstrip()) - (1 if node.style in ("'", '"') else 0)
    place = document.source.span(at, at)
    return Edit(document.path, place, f" && {' '.join(command.split(chr(10))).strip()}")
