"""What batch directives request per node, as rows on batch systems describe them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpulint import regex
from gpulint.documents.shell import Directive, Script
from gpulint.documents.tasks import Count, Resources
from gpulint.libraries import Models
from gpulint.libraries.numbers import Number, Stated
from gpulint.libraries.schedulers import Gpus, ResourceList, Scheduler, TimeLimit
from gpulint.numerals import whole
from gpulint.records import dataclass, field
from gpulint.source import Span


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """A batch job's directives: ``system`` is "" for a script without any."""

    system: str = ""
    resources: Resources = field(default_factory=Resources)
    name: str = ""
    working_dir: str | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """One option of a directive; ``span`` holds option and value, ``written`` is the value before placeholders
    (``<name>``) were read as variables."""

    name: str
    value: str
    span: Span
    text: str
    written: str = ""

    def count(self, value: int | None) -> Count:
        """A number with the flag as its place."""
        return Count(value, self.span, self.text)


Flags = list[Flag]


def request(script: Script) -> ResourceRequest:
    """Return the script's scheduler request. Directives after the first command are ignored, as schedulers do."""
    given = [item for item in script.directives if item.leading]
    rows: tuple[Scheduler, ...] = script.models.rows("scheduler") if given else ()
    for row in rows:
        found = [flag for item in given if item.prefix == row.prefix for flag in flags(script, item, glued=row.glued)]
        if any(item.prefix == row.prefix for item in given):
            return _request(row, found)
    return ResourceRequest()


def on_command_line(models: Models, words: Sequence[str], span: Span) -> Resources:
    """Return what the options of ``sbatch`` request, each of which has ``span`` as its place."""
    rows: tuple[Scheduler, ...] = models.rows("scheduler")
    row = next(row for row in rows if row.name == "slurm")
    tokens = [(word, at, at + 1) for at, word in enumerate(words)]
    given = [Flag(name, value, span, " ".join(words[start:end])) for name, value, start, end in _options(tokens, True)]
    return _request(row, given).resources


_TOKEN = regex.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")


def flags(script: Script, directive: Directive, *, glued: bool = True) -> Iterator[Flag]:
    """Options of one line: ``--a=b``, ``--a b``, ``-a b`` and, where they may be ``glued``, ``-ab``; a ``#`` word
    begins a comment."""
    tokens = list[tuple[str, int, int]]()
    for match in _TOKEN.finditer(directive.text):
        if match.group().startswith("#"):
            break
        tokens.append((match.group(), match.start(), match.end()))
    for name, value, start, end in _options(tokens, glued):
        first, stop = directive.start + start, directive.start + end
        written = script.fragment.text[stop - len(value) : stop] if value else ""
        yield Flag(
            name, _unquoted(value), script.fragment.span(first, stop), directive.text[start:end], _unquoted(written)
        )


def _options(tokens: list[tuple[str, int, int]], glued: bool) -> Iterator[tuple[str, str, int, int]]:
    """(option, value, start, end) of the words that begin with a dash."""
    at = 0
    while at < len(tokens):
        token, start, end = tokens[at]
        at += 1
        if not token.startswith("-"):
            continue
        name, equals, value = token.partition("=")
        if not name.startswith("--") and len(name) > 2 and glued:
            name, value, equals = token[:2], token[2:].lstrip("="), "="
        if not equals and at < len(tokens) and not tokens[at][0].startswith("-"):
            value, end = tokens[at][0], tokens[at][2]
            at += 1
        yield name, value, start, end


def _unquoted(text: str) -> str:
    try:
        return "".join(shlex.split(text))
    except ValueError:
        return text


def _given(flags: Flags, options: tuple[str, ...]) -> Iterator[Flag]:
    """Flags with one of the options, the last one first."""
    return (flag for flag in reversed(flags) if flag.name.lstrip("-") in options)


def _stated(flags: Flags, rule: Number | None) -> tuple[Flag, Stated] | None:
    """The last flag that states a number, and what it states."""
    for flag in _given(flags, rule.options) if rule is not None else ():
        if rule is not None and (found := rule.read(flag.value)) is not None:
            return flag, found
    return None


def _count(flags: Flags, rule: Number | None) -> Count | None:
    found = _stated(flags, rule)
    return None if found is None else found[0].count(found[1].number)


def _seconds(flags: Flags, rule: TimeLimit | None) -> int | None:
    """Return the time limit in seconds."""
    values = (flag.value for flag in _given(flags, rule.options)) if rule is not None else ()
    return next((found for value in values if rule is not None and (found := rule.seconds(value))), None)


def _text(flags: Flags, options: tuple[str, ...]) -> str | None:
    return next((flag.value for flag in _given(flags, options)), None)


def _request(row: Scheduler, flags: Flags) -> ResourceRequest:
    nodes, tasks = _count(flags, row.nodes), _count(flags, row.tasks)
    per_node = _count(flags, row.tasks_per_node)
    if per_node is None and tasks is not None:
        whole_job = nodes.value if nodes is not None else 1 if tasks.value == 1 else None
        per_node = replace(tasks, value=_divided(tasks.value, whole_job))
    gpus, model = _gpus(row, flags, nodes, per_node)
    resources = Resources(
        gpus=gpus,
        nodes=nodes,
        tasks_per_node=per_node,
        cpus=_count(flags, row.cpus) or (_count(flags, row.slots) if nodes is None else None),
        gpu_model=model,
        fractional=bool(model and re.search(r"\dg\.\d+gb", model)),
        vendor="amd" if model and model.startswith(("mi", "amd")) else "nvidia",
        seconds=_seconds(flags, row.time),
        queue=" ".join(flag.value for flag in _given(flags, row.queue)),
    )
    for flag in flags if row.resources is not None else ():
        if row.resources is not None and flag.name.lstrip("-") in row.resources.options:
            resources = _listed(row.resources, flag, resources)
    name = next((flag.written or flag.value for flag in _given(flags, row.job_name)), "")
    return ResourceRequest(row.system or row.name, resources, name, _text(flags, row.working_dir))


def _gpus(row: Scheduler, flags: Flags, nodes: Count | None, tasks: Count | None) -> tuple[Count | None, str | None]:
    """GPUs per node and their model."""
    for rule in row.gpus:
        if (found := _stated(flags, rule)) is None:
            continue
        flag, (number, model) = found
        if rule.model and (named := re.fullmatch(rule.model, flag.value)) is not None:
            model = named[1].lower()
        return flag.count(_per_node(rule, number, nodes, tasks)), model
    return None, None


def _per_node(rule: Gpus, number: int | None, nodes: Count | None, tasks: Count | None) -> int | None:
    if rule.per == "task":
        count = tasks.value if tasks is not None else 1
        return number * count if number is not None and count is not None else None
    if rule.per == "job":
        # Without a number of nodes the GPUs may be spread; a single GPU has nowhere to go.
        if nodes is None and number is not None and number <= _ON_ONE_NODE:
            return number
        return _divided(number, nodes.value if nodes is not None else 1)
    return number


_ON_ONE_NODE = 8
"""Most GPUs that a node is taken to have."""


def _divided(total: int | None, by: int | None) -> int | None:
    return total // by if total is not None and by and total % by == 0 else None


def _listed(names: ResourceList, flag: Flag, found: Resources) -> Resources:
    """Resources with what a list adds: ``select=2:ngpus=4:ncpus=16`` (PBS Pro), ``nodes=2:ppn=8:gpus=2`` (Torque),
    ``host=1/gpu=2`` (OAR), ``node=2,gpu=8`` (Fujitsu)."""
    for entry in re.split(r",(?=/?[\w.]+=)", flag.value):
        parts = [part for part in re.split("[:/]", entry) if "=" in part]
        for part in parts:
            key, _, value = part.partition("=")
            if key in names.nodes:
                if "+" in entry:  # unlike nodes: no single number holds
                    return replace(found, nodes=flag.count(None), gpus=flag.count(None))
                unnumbered = "=" in value  # one of these: select=ngpus=4
                found = replace(found, nodes=flag.count(1 if unnumbered else whole(value)))
                key, _, value = value.partition("=") if unnumbered else ("", "", "")
            if key in names.gpus:
                found = replace(found, gpus=flag.count(whole(value)))
            elif (gpus := names.gpus_of(key)) is not None:
                found = replace(found, nodes=flag.count(whole(value)), gpus=flag.count(gpus))
            elif key in names.tasks:
                found = replace(found, tasks_per_node=flag.count(whole(value)))
            elif key in names.cpus:
                found = replace(found, cpus=flag.count(whole(value)))
            elif key in names.model:
                found = replace(found, gpu_model=value)
    return found
