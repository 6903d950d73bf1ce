"""YAML job specs: which documents are one, and what they launch."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.budget import Budget, size
from gpulint.documents.base import Document
from gpulint.documents.conflicts import UNRESOLVED, conflict_line
from gpulint.records import dataclass
from gpulint.rule import Kind
from gpulint.source import Fragment, Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpulint.documents.inline_python import InlineProgram
    from gpulint.documents.python import PythonModule
    from gpulint.documents.shell import Script
    from gpulint.documents.tasks import Count, Task
    from gpulint.documents.yamltree import Node
    from gpulint.libraries import Models

MAX_DOCUMENT = 1_000_000
"""Characters of one YAML document beyond which it is generated and not read."""

_KEYS = (
    "container", "containers", "script", "resources", "entrypoint", "available_node_types", "cluster_name",
    "distributed_type",
)  # fmt: skip
"""Job specs that are read by code, and ``accelerate`` configurations, have one of these keys."""
_COMPUTES = (
    "gpu", "accelerator", "nvidia", "amd.com", "cuda", "python", "torch", "mpi", "horovod", "deepspeed",
    "distributed_type", ".py", ".sh",
)  # fmt: skip
"""Without any of these words (in lower case), or a key for GPUs, nothing is computed and no program is started."""
_OTHERS = regex.compile(
    r"^(?:kind:[ \t]*['\"]?CustomResourceDefinition\b|openapi:|swagger:|jobs:|asyncapi:|definitions:"
    r"|repos:\s*\n(?:[ \t]*#.*\n)*[ \t]*-[ \t]*repo:)",
    re.MULTILINE,
)
"""Documents that nest such keys and launch nothing: CRDs, API descriptions, CI workflows, pre-commit."""
_GPU_RUNNER = regex.compile(
    r"^[ ]+runs-on:(?:[^\n]|\n[ ]+(?:-|group:|labels:))*?(?<![a-z])(?:gpus?|cuda|[ahv]100|a10g?|t4|l40?s?)(?![a-z])",
    re.MULTILINE | re.IGNORECASE,
)
"""GitHub's workflows with a job on a machine with GPUs."""
_PIPELINE = regex.compile(r"^\$schema:.*azureml|^type:[ \t]*['\"]?pipeline\b", re.MULTILINE | re.IGNORECASE)
"""Azure ML's pipelines, which call their steps jobs, as CI workflows do."""
_TEMPLATE = regex.compile(r"\{\{|\{%|<%|\$\{\{")


class _Gate:
    """What a file's text tells of job formats before it is parsed."""

    def __init__(self, models: Models) -> None:
        from gpulint.libraries.paths import parse_path

        rows = [row for row in models.rows("format") if row.is_yaml]
        self._required = [[_keys(condition) for condition in row.requires] for row in rows]
        known = {*_KEYS, *(key for row in self._required for groups in row for keys in groups for key in keys)}
        self._shapes = regex.compile(
            rf"""(?:^|[\s{{,'"-])({"|".join(map(re.escape, sorted(known)))})['"]?[ \t]*:""", re.MULTILINE
        )
        keys = {key for row in rows for gpus in row.gpus for key in parse_path(gpus.at).last_keys}
        own = sorted(key.lower() for key in keys if not any(word in key.lower() for word in _COMPUTES))
        self._counts = regex.compile(rf"""\b(?:{"|".join(map(re.escape, own))})['"]?[ \t]*:""")

    def computes(self, lower: str) -> bool:
        """Return whether a text in lower case may ask for GPUs or start a program."""
        return any(word in lower for word in _COMPUTES) or self._counts.search(lower) is not None

    def launches(self, text: str) -> bool:
        """Return whether a text has the keys of some job format, or carries files."""
        keys = set(self._shapes.findall(text))
        return (
            not keys.isdisjoint(_KEYS)
            or "ConfigMap" in text
            or any(all(any(keys.issuperset(group) for group in groups) for groups in row) for row in self._required)
        )


def _keys(condition: str) -> tuple[tuple[str, ...], ...]:
    """The keys that a text has to have for a condition to hold, for each alternative of its path."""
    from gpulint.libraries.paths import parse_condition

    branches = parse_condition(condition).path.branches
    return tuple(tuple(step.key for step in branch.steps if step.key is not None) for branch in branches)


MAX_TASKS = 60_000
"""Words of commands and environments that the tasks of one document have in all, at most."""


@dataclass(frozen=True, slots=True)
class AccelerateConfig:
    """What ``accelerate launch --config_file`` reads of processes: in all, and of the machines that share them."""

    num_processes: Count | None
    num_machines: Count | None
    single: Span | None = None
    """Where it says that there is one process, whatever the number (``distributed_type: 'NO'``)."""


class JobSpecDocument(Document):
    """A ``.yaml`` or ``.yml`` file. Most are no job spec: those are told by their text and never parsed."""

    kind = Kind.JOBSPEC

    @cached_property
    def roots(self) -> tuple[Node, ...]:
        """Root nodes of the YAML documents that may launch something or carry code."""
        text = self.source.text
        gate = self.models.derived(_Gate)
        if not gate.computes(text.lower()) or not gate.launches(text):
            return ()
        from gpulint.documents.yamltree import YamlError, parse, split_documents

        origin = Fragment(text, self.source)
        found: list[Node] = []
        budget = Budget()
        for start, end in split_documents(text):
            part = text[start:end]
            other = _OTHERS.search(part) and not _PIPELINE.search(part) and not _GPU_RUNNER.search(part)
            if other or not gate.launches(part):
                continue
            if len(part) > MAX_DOCUMENT:
                line = self.source.position(start)[0]
                self.problem(f"YAML document of {len(part):,} characters skipped", line, is_error=False)
                continue
            try:
                found += parse(origin, start, end, budget)
            except YamlError as error:
                if (conflict := conflict_line(part)) is not None:
                    self.problem(UNRESOLVED, self.source.position(start)[0] + conflict - 1, 1)
                elif not _TEMPLATE.search(part):
                    self.problem(f"YAML error: {error}", *self.source.position(min(error.offset, len(text))))
                elif roots := self._template(origin.cut(start, end)):
                    found += roots
                else:
                    self.problem("template, skipped", self.source.position(start)[0], is_error=False)
        if budget.exhausted:
            self.problem(f"merge keys of more than {budget.limit:,} entries were not followed", is_error=False)
        return tuple(root for root in found if root.kind == "map")

    @staticmethod
    def _template(part: Fragment) -> list[Node]:
        """Roots of a template whose expressions may stand for any word; none if it is no YAML then either."""
        from gpulint.documents.templates import MAX_TEMPLATE
        from gpulint.documents.yamltree import YamlError, parse_template

        try:
            return parse_template(part) if len(part.text) <= MAX_TEMPLATE else []
        except YamlError:
            return []

    def read_tasks(self) -> tuple[Task, ...]:
        found: list[Task] = []
        budget = Budget(MAX_TASKS)
        for task in (task for root in self.roots for task in _read(root, self.models)):
            if not budget.spend(_weight(task)):
                message = f"only the first {len(found):,} tasks were analysed: together they are too large"
                self.problem(message, task.span.line, is_error=False)
                break
            found.append(task)
        return tuple(found)

    def read_scripts(self) -> tuple[Script, ...]:
        """Commands of all tasks, then the shell files that ConfigMaps hold."""
        from gpulint.documents.shell import parse_script

        own = dict.fromkeys(script for task in self.tasks for script in task.scripts)
        self.note_bounds(own)
        return (*own, *(parse_script(part) for name, part in self.embedded if name.endswith((".sh", ".bash"))))

    @cached_property
    def embedded(self) -> tuple[tuple[str, Fragment], ...]:
        """(file name, text) of Python and shell files within the document: ConfigMap data, Argo script sources."""
        from gpulint.documents.specs import kubernetes

        files: list[tuple[str, Fragment]] = []
        for root in self.roots:
            for item in [root, *root.at("items").elements]:
                if item.at("kind").text == "ConfigMap":
                    data = item.at("data").pairs()
                    files += [
                        (key.text, value.fragment) for key, value in data if key.text.endswith((".py", ".sh", ".bash"))
                    ]
            files += [("script.py", node.fragment) for node in kubernetes.python_sources(root)]
        return tuple(files)

    def read_inline(self) -> Iterable[InlineProgram]:
        """Files of ConfigMaps, sources of Argo's templates, and what commands hand to an interpreter."""
        from gpulint.documents.inline_python import InlineProgram, in_scripts

        files = (InlineProgram(part, name) for name, part in self.embedded if name.endswith(".py"))
        return (*files, *in_scripts(self.scripts))

    @cached_property
    def modules(self) -> tuple[PythonModule, ...]:
        """The embedded Python files that parse; the others are a problem each."""
        from gpulint.documents.python import PythonModule

        modules = []
        for name, part in self.embedded:
            if not name.endswith(".py"):
                continue
            try:
                modules.append(PythonModule(self.path.with_name(name), part.text, part.span))
            except SyntaxError as error:
                lines = part.text.splitlines(keepends=True)
                offset = sum(map(len, lines[: (error.lineno or 1) - 1]))
                line = self.source.position(part.owner_offset(offset))[0]
                self.problem(f"syntax error in {name}: {error.msg}", line)
        return tuple(modules)

    @cached_property
    def accelerate(self) -> AccelerateConfig | None:
        """The file as an ``accelerate config``, if it is one."""
        from gpulint.documents.specs.common import count, pair_span

        for root in self.roots:
            name, kind = root.pair("distributed_type")
            if kind and (root.at("compute_environment") or root.at("num_processes")):
                single = pair_span(name, kind) if kind.text.lower() == "no" else None
                return AccelerateConfig(count(root, "num_processes"), count(root, "num_machines"), single)
        return None


def _weight(task: Task) -> int:
    return 20 + len(task.env) + len(task.packages) + sum(size(script.fragment.text) for script in task.scripts)


def read_tasks(text: Fragment, models: Models) -> list[Task]:
    """Tasks of a job spec within another file; none of text that is no YAML."""
    from gpulint.documents.yamltree import YamlError, parse

    try:
        roots = parse(text)
    except YamlError:
        return []
    return [task for root in roots if root.kind == "map" for task in _read(root, models)]


def _read(root: Node, models: Models) -> list[Task]:
    """Tasks of one document, by the first system that knows it."""
    from gpulint.documents.specs import formats, kubernetes, ray

    if tasks := ray.read(root):
        return tasks
    for row in models.rows("format"):
        if row.is_yaml and (tasks := formats.read(row, root)):
            return tasks
    return kubernetes.read(root)
