"""Jobs that a script submits with their text: batch scripts and specs in here-documents, ``sbatch --wrap='...'``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.shell.nested import option_value, script_text
from gpulint.documents.shell.parse import parse_script
from gpulint.documents.shell.scheduler_directives import request
from gpulint.documents.tasks import Count, Resources, Task
from gpulint.libraries.names import matches
from gpulint.numerals import whole
from gpulint.source import Fragment

if TYPE_CHECKING:
    from gpulint.documents.shell.script import Command, Script
    from gpulint.libraries import Models
    from gpulint.libraries.commands import Submitter

_DIRECTIVES = regex.compile(r"^#(?:SBATCH|PBS|BSUB|\$) ", re.MULTILINE)
_OBJECT = regex.compile(r"^(?:apiVersion|kind):", re.MULTILINE)
_NUMBER = regex.compile(r"gpus?[:=/](?:[A-Za-z][\w-]*[:=])?(\d+)|^(?:[A-Za-z][\w-]*:)?(\d+)$|\.(\d+)\.(?:norm|mem)\b")
"""``gpu:a100:4``, ``nvidia.com/gpu=1``, ``A100:4``, ``4``, ``dgxa100.80g.8.norm``."""
_ESCAPED = regex.compile(r"\\(&)\\&|\\([;|])")
"""Operators for the shell of the job."""
_BATCH_TEXT, _SPEC_TEXT = ("cat", "tee", "sbatch", "qsub", "bsub", "oarsub"), ("cat", "tee", "kubectl", "oc", "k")
MAX_SUBMITTED = 50
"""Jobs in one script, at most."""


def submitted(script: Script, models: Models) -> tuple[Task, ...]:
    """Jobs that the commands of a script submit with their text."""
    text = script.fragment.text
    if "<<" not in text and not any(word in text for row in models.rows("submitter") for word in row.words):
        return ()
    return tuple(islice(_submitted(script, models), MAX_SUBMITTED))


def _submitted(script: Script, models: Models) -> Iterator[Task]:
    rows: tuple[Submitter, ...] = models.rows("submitter")
    for command in script.commands:
        if command.heredoc is not None:
            yield from _document(command, command.heredoc, models)
        row = next((row for row in rows if _is_told(row, command)), None)
        if row is not None and (task := _with_options(row, command)) is not None:
            yield task


def _document(command: Command, text: Fragment, models: Models) -> Iterator[Task]:
    """Tasks of a here-document that is a batch script or a job spec."""
    if command.name in _BATCH_TEXT and _DIRECTIVES.search(text.text):
        inner = parse_script(text, outer=command)
        found = request(inner)
        span = text.span(0, len(text.text.rstrip()))
        yield Task(found.name or "job", span, resources=found.resources, scripts=(inner,), system=found.system)
    elif command.name in _SPEC_TEXT and len(set(_OBJECT.findall(text.text))) == 2:
        from gpulint.documents.jobspec import read_tasks

        yield from read_tasks(text, models)


def _is_told(row: Submitter, command: Command) -> bool:
    if not command.words:
        return False
    told = [word.raw for word in command.words[1:] if not word.raw.startswith("-")]
    name = command.name
    if name.startswith("python") and told and command.words[1].raw == told[0]:
        name, told = told[0].rpartition("/")[2], told[1:]
    if not matches(row.programs, (name,)):
        return False
    return not row.verbs or any(told[: len(verb.split())] == verb.split() for verb in row.verbs)


def _with_options(row: Submitter, command: Command) -> Task | None:
    """The job of a command that names GPUs and holds what the job runs."""
    gpus, script = _gpus(row, command), _script(row, command)
    if gpus is None or script is None:
        return None
    resources = Resources(gpus=gpus)
    return Task(command.name, command.span, resources=resources, scripts=(script,), system=row.system or command.name)


def _gpus(row: Submitter, command: Command) -> Count | None:
    for option in row.gpus:
        found = option_value(command.words, (option,))
        if found is None:
            continue
        word, skip = found
        text = (word.value or word.raw)[skip:]
        match = _NUMBER.search(text)
        if match is None and "gpu" not in text and "$" not in text:
            continue
        number = whole(next(group for group in match.groups() if group)) if match is not None else None
        return Count(number, word.span, f"{option} {text}")
    return None


def _script(row: Submitter, command: Command) -> Script | None:
    if row.command and (found := option_value(command.words, row.command)) is not None:
        return parse_script(script_text(command, *found), outer=command)
    if row.last and command.words[-1].quoted:
        return parse_script(script_text(command, command.words[-1]), outer=command)
    at = next((at for at, word in enumerate(command.words) if word.raw == "--"), len(command.words)) + 1
    if row.rest and at < len(command.words):
        start, end = command.words[at].start, command.words[-1].end
        text = _ESCAPED.sub(_unescaped, command.fragment.text)
        return parse_script(command.fragment.cut(start, end, text), outer=command)
    return None


def _unescaped(operator: re.Match[str]) -> str:
    """The operator, in as many characters."""
    return ("&&" if operator[1] else operator[2]).ljust(len(operator[0]))
