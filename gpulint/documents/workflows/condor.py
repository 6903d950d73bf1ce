"""HTCondor's submit files: ``name = value`` lines up to ``queue``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.specs.common import join
from gpulint.documents.tasks import Count, EnvVar, Resources, Task
from gpulint.numerals import whole
from gpulint.source import Fragment, SourceText, Span

if TYPE_CHECKING:
    from gpulint.documents.shell import Script
    from gpulint.libraries import Models

_LINE = regex.compile(r"^[ \t]*([A-Za-z_+][\w.+]*)[ \t]*=[ \t]*([^\n]*)|^[ \t]*(queue)\b", re.MULTILINE | re.IGNORECASE)
_MACRO = regex.compile(r"\$\((\w+)(?::([^()\n]*))?\)")
"""``$(cores)``, ``$(cores:1)``: https://htcondor.readthedocs.io/en/latest/users-manual/submitting-a-job.html"""
_VARIABLE = regex.compile(r"([A-Za-z_]\w*)=('[^']*'|\"[^\"]*\"|\S*)")


def read(source: SourceText, models: Models) -> list[Task]:
    """The job of a submit file; without an executable (and an image to run) there is none."""
    values: dict[str, tuple[Fragment, Span]] = {}
    queued = False
    for match in _LINE.finditer(source.text):
        if match[3]:
            queued = True
        elif value := match[2].partition(" #")[0].rstrip():
            start = match.start(2)
            span = source.span(match.start(1), start + len(value))
            values[match[1].lower()] = Fragment(value, source, ((0, start),)), span
    if not queued or "executable" not in values:
        return []
    gpus, cpus = (_count(values, f"request_{what}") for what in ("gpus", "cpus"))
    image = values.get("docker_image") or values.get("container_image")
    return [
        Task(
            name=values["executable"][0].text.rpartition("/")[2],
            span=values["executable"][1],
            resources=Resources(gpus=gpus, cpus=cpus),
            scripts=(_script(values),),
            env=_environment(values.get("environment")),
            image=image[0].text if image is not None else None,
            system="htcondor",
        )
    ]


def _script(values: dict[str, tuple[Fragment, Span]]) -> Script:
    """The executable, which is a file of the folder that the job is submitted from, with its arguments."""
    from gpulint.documents.shell import parse_script

    program = values["executable"][0]
    start = Fragment("./", program.owner, ((0, program.owner_offset(0)),))
    parts = [program] if "/" in program.text else [join([start, program], "")]
    if (given := values.get("arguments")) is not None:
        text = given[0].text
        quoted = text[:1] == '"' == text[-1:] and len(text) > 1
        parts.append(given[0].cut(1, len(text) - 1) if quoted else given[0])
    return parse_script(join(parts, " "))


def _count(values: dict[str, tuple[Fragment, Span]], name: str) -> Count | None:
    """The number of a request, that of a macro or its default among them."""
    if (given := values.get(name)) is None:
        return None

    def value(macro: re.Match[str]) -> str:
        known = values.get(macro[1].lower())
        return known[0].text if known is not None else macro[2] or ""

    return Count(whole(_MACRO.sub(value, given[0].text).strip()), given[1], given[0].text)


def _environment(given: tuple[Fragment, Span] | None) -> tuple[EnvVar, ...]:
    if given is None:
        return ()
    found = _VARIABLE.finditer(given[0].text.strip('"'))
    return tuple(EnvVar(match[1], match[2].strip("'\""), given[1]) for match in found)
