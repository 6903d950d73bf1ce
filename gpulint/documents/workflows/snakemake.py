"""Snakemake: one task for each rule with a shell command or a script."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.specs.common import join
from gpulint.documents.tasks import Count, Resources, Task
from gpulint.documents.workflows import MAX_TASKS
from gpulint.documents.workflows.literals import Literals, fragment, literals
from gpulint.numerals import whole
from gpulint.source import SourceText

if TYPE_CHECKING:
    from gpulint.documents.shell import Script
    from gpulint.libraries import Models

_RULE = regex.compile(r"^(?:rule|checkpoint)[ \t]+(\w+)[ \t]*:", re.MULTILINE)
_END = regex.compile(r"^\S", re.MULTILINE)
_SECTION = regex.compile(r"^[ \t]+(\w+)[ \t]*:", re.MULTILINE)
_GPUS = regex.compile(
    r"\b(?:n?gpus?|nvidia_gpu|gpus_per_node|gpus_per_task)[ \t]*=[ \t]*[\"']?(?P<number>\d+|\w+)"
    r"|gpu:(?:\w+:)?(?P<gres>\d+)|--gpus(?:-per-\w+)?=(?:\w+:)?(?P<option>\d+)"
)
_ESCAPED = {"{{": "{", "}}": "}", "\\\\": "\\"}


def read(source: SourceText, models: Models) -> list[Task]:
    """Tasks of a Snakefile."""
    found = literals(source.text, slashes=False)
    tasks = []
    for rule in islice(_RULE.finditer(found.code), MAX_TASKS):
        after = _END.search(found.code, rule.end())
        end = after.start() if after else len(found.code)
        sections = list(_SECTION.finditer(found.code, rule.end(), end))
        stops = (*(match.start() for match in sections[1:]), end)
        places = {match[1]: (match.end(), stop) for match, stop in zip(sections, stops, strict=False)}
        if (script := _script(source, found, places)) is not None:
            resources = Resources(gpus=_gpus(source, places.get("resources")))
            span = source.span(rule.start(), rule.end())
            tasks.append(Task(rule[1], span, resources=resources, scripts=(script,), system="snakemake"))
    return tasks


def _script(source: SourceText, found: Literals, places: dict[str, tuple[int, int]]) -> Script | None:
    """The text after ``shell:``, or a Python program after ``script:``."""
    from gpulint.documents.shell import parse_script, script_from_argv

    if (place := places.get("shell")) is not None:
        parts = [fragment(source, *string, _ESCAPED) for string in found.within(*place)]
        return parse_script(join(parts, "")) if parts else None
    if (place := places.get("script")) is not None:
        programs = [fragment(source, *string, {}) for string in found.within(*place)]
        if programs and programs[0].text.endswith(".py"):
            python = fragment(source, place[0], place[0], {})
            return script_from_argv([join([python, python], "python"), programs[0]])
    return None


def _gpus(source: SourceText, place: tuple[int, int] | None) -> Count | None:
    match = _GPUS.search(source.text, *place) if place is not None else None
    if match is None:
        return None
    number = match["number"] or match["gres"] or match["option"]
    return Count(whole(number), source.span(*match.span()), match[0])
