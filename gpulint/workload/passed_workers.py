"""Commands that pass 0 workers to a program whose own default is another number: somebody has chosen the 0."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.launch.job_index import JobIndex
from gpulint.query import query
from gpulint.values.configured import in_file, mentioning
from gpulint.values.constants import Constants
from gpulint.values.option_calls import declaring_calls, dests
from gpulint.workspace.module_index import last_name

if TYPE_CHECKING:
    from gpulint.launch.program_launches import Launch
    from gpulint.project import Project
    from gpulint.source import Span

_ZERO = regex.compile(r"(--?|(?:[\w.]+\.)?(?=\w+=))([A-Za-z][\w-]*)(?:=0)?")
"""``--num-workers``, ``--workers=0``, ``data.num_workers=0``"""


@query
def default_replaced(project: Project, path: Path, span: Span) -> int:
    """Return how many workers a program has by default that gets 0 at a place of a command; 0 if it has none, or
    nothing is known."""
    for found in project.fact(JobIndex).launches_in(path):
        name, is_option = _passed(found.start.launch, span)
        program = found.start.program
        if name and program is not None:
            known = _declared(project, program, name) if is_option else _configured(project, name)
            numbers = [value for value in known if type(value) is int]
            if numbers and min(numbers) > 0:
                return min(numbers)
    return 0


def _passed(launch: Launch, span: Span) -> tuple[str, bool]:
    """Return the name of the option or setting that a command gives a 0 in a line, and whether it is an option."""
    for at, word in enumerate(launch.args):
        if (word.span.cell, word.span.line) != (span.cell, span.line):
            continue
        found = _ZERO.fullmatch(word.text)
        following = launch.args[at + 1].text if at + 1 < len(launch.args) else ""
        if found is None or not found[2].replace("-", "_").endswith("workers"):
            continue
        if word.text.endswith("=0") or following == "0":
            return found[2].replace("-", "_"), found[1].startswith("-")
    return "", False


def _declared(project: Project, program: Path, name: str) -> Iterator[object]:
    """Yield the defaults that a program, or a module that it imports, declares for an option."""
    for path in (program, *sorted(project.imported(program))):
        module = project.module_at(path)
        if module is None:
            continue
        decorators = [call for call in module.calls_by_name.get("option", ()) if name in dests(call)]  # click's
        for call in (*declaring_calls(module).get(name, ()), *decorators):
            default = keyword_value(call, "default")
            if last_name(call.func).startswith("DEFINE_") and len(call.args) > 1:
                default = call.args[1]
            yield from project.fact(Constants).of(module, default).constants if default is not None else (None,)


def _configured(project: Project, name: str) -> Iterator[object]:
    """Yield what the configuration files of the tree have for a setting."""
    for path in mentioning(project, name):
        yield from in_file(project, path, name)
