"""Makefiles: one task for each target with a recipe; variables of the file are its environment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.tasks import EnvVar, Task
from gpulint.documents.workflows import MAX_TASKS
from gpulint.source import Fragment, SourceText

if TYPE_CHECKING:
    from gpulint.libraries import Models

_ASSIGNMENT = regex.compile(r"(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*(?:[:?]{0,2}=)[ \t]*(.*)")
_TARGET = regex.compile(r"([^\s:#=][^:#=]*)::?(?!=)")
_REFERENCE = regex.compile(r"\$\((\w+)\)")
_DEFINITION = regex.compile(r"define\b")
_PREFIX = "@-+ \t"
MAX_VALUE = 500
"""Characters of a variable's value that are kept."""


def read(source: SourceText, models: Models) -> list[Task]:
    """Tasks of a Makefile."""
    text, values = source.text, dict[str, EnvVar]()
    recipes: list[tuple[str, int, int]] = []
    defining, at = False, 0
    for line in text.splitlines(keepends=True):
        start, at = at, at + len(line)
        if defining or _DEFINITION.match(line):
            defining = not line.startswith("endef")
        elif line.startswith("\t") or (recipes and _continues(text, start)):
            if recipes:
                recipes[-1] = (*recipes[-1][:2], at)
        elif match := _ASSIGNMENT.match(line):
            if len(match[2]) <= MAX_VALUE:
                value = _REFERENCE.sub(lambda inner: _value(values, inner), match[2].rstrip())
                span = source.span(start + match.start(1), start + len(line.rstrip()))
                known = "$" not in value and len(value) <= MAX_VALUE
                values[match[1]] = EnvVar(match[1], value if known else None, span)
        elif target := _TARGET.match(line):
            recipes.append((target[1].rstrip(), start, at))
    environment = tuple(values.values())
    return [task for recipe in recipes[:MAX_TASKS] for task in _task(source, *recipe, environment)]


def _value(values: dict[str, EnvVar], reference: re.Match[str]) -> str:
    known = values.get(reference[1])
    return known.value if known is not None and known.value is not None else reference[0]


def _continues(text: str, start: int) -> bool:
    """Return whether the line before ends in a backslash."""
    return text[max(start - 3, 0) : start].endswith(("\\\n", "\\\r\n"))


def _task(source: SourceText, name: str, start: int, end: int, environment: tuple[EnvVar, ...]) -> list[Task]:
    """The target's recipe as a script, each line as make hands it to a shell; none without a recipe."""
    from gpulint.documents.shell import parse_script

    text, pieces = "", list[tuple[int, int]]()
    first = source.text.find("\n", start) + 1
    at = first
    in_recipe = False
    for line in source.text[first:end].splitlines(keepends=True):
        continued = at != first and _continues(source.text, at)
        in_recipe = in_recipe if continued else line.startswith("\t")
        here = line if continued else line[1:].lstrip(_PREFIX)
        offset = at + len(line) - len(here)
        at += len(line)
        if not in_recipe:  # a comment or a condition of make's own between two lines of the recipe
            continue
        for part in re.split(r"(\$\$)", _REFERENCE.sub(r"${\1}", here)):
            pieces.append((len(text), offset))
            offset += len(part)
            text += "$" if part == "$$" else part
    if not text.strip():
        return []
    script = parse_script(Fragment(text, source, tuple(pieces)))
    return [Task(name, source.span(start, end - 1), scripts=(script,), env=environment)]
