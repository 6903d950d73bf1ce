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
from gpulint.source import Fragment, Span

if TYPE_CHECKING:
    from gpulint.documents.shell.script import Command, Script
    from gpulint.libraries import Models
    from gpulint.libraries.commands import Submitter

_DIRECTIVES = regex.compile(r"^#(?:SBATCH|PBS|BSUB|\$(?=[ -]))[ -]", re.MULTILINE)
_OBJECT = regex.compile(r"^(?:apiVersion|kind):", re.MULTILINE)
_NUMBER = regex.compile(
    r"gpus?(?:_\w+)?[:=/](?:[A-Za-z][\w-]*[:=])?(\d+)|^(?:[A-Za-z][\w-]*:)?(\d+)$|\.(\d+)\.(?:norm|mem)\b"
    r"|(?:^|:)num=(\d+)"
)
"""``gpu:a100:4``, ``nvidia.com/gpu=1``, ``A100:4``, ``4``, ``dgxa100.80g.8.norm``, ``num=4:mode=shared``."""
_SHARE = regex.compile(r"0?\.\d+")
"""``0.5`` of a GPU."""
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
    """The job of a command that names GPUs, or a machine, and holds what the job runs.

    On a machine whose name says nothing, what runs tells whether there are GPUs, as for a plain script.
    """
    gpus, system = _gpus(row, command), row.system or command.name
    if gpus is None:
        machine = _machine(row, command)
        if machine is None:
            return None
        gpus = machine if machine.value != 0 else None
        system = system if gpus is not None else ""
    script = _script(row, command)
    resources = Resources(gpus=gpus)
    if script is None:
        asked = next((word.span for word in command.words if word.raw in row.interactive), None)
        return (
            Task(command.name, command.span, resources=resources, system=system, interactive=asked) if asked else None
        )
    return Task(command.name, command.span, resources=resources, scripts=(script,), system=system)


def _given(command: Command, option: str) -> tuple[str, Span] | None:
    """The value of an option of a command, variables expanded, and where it stands."""
    found = option_value(command.words, (option,))
    if found is None:
        return None
    word, skip = found
    expanded = next((one.text for one in command.argv if one.word is word), word.value or word.raw)
    return expanded[skip:], word.span


def _gpus(row: Submitter, command: Command) -> Count | None:
    for option in row.gpus:
        given = _given(command, option)
        if given is None:
            continue
        text, span = given
        match = _NUMBER.search(text)
        if match is None and "gpu" not in text and "$" not in text and not _SHARE.fullmatch(text):
            continue
        number = whole(next(group for group in match.groups() if group)) if match is not None else None
        return Count(number, span, f"{option} {text}")
    return None


def _machine(row: Submitter, command: Command) -> Count | None:
    """The GPUs of the machine that a command names; 0 if its name does not tell, None for one without GPUs."""
    from gpulint.documents.specs.accelerators import machine_gpus
    from gpulint.documents.specs.gpu_syntax import is_named_for_gpus

    for option in row.machine:
        if (given := _given(command, option)) is not None:
            text, span = given
            if "cpu" in text.lower():
                return None
            known = machine_gpus(text)
            number = known[0] if known is not None else None
            return Count(number if known or is_named_for_gpus(text) else 0, span, f"{option} {text}")
    return None


def _script(row: Submitter, command: Command) -> Script | None:
    if row.command and (found := option_value(command.words, row.command)) is not None:
        return parse_script(script_text(command, *found), outer=command)
    if row.last and command.words[-1].quoted:
        return parse_script(script_text(command, command.words[-1]), outer=command)
    at = next((at for at, word in enumerate(command.words) if word.raw == "--"), len(command.words)) + 1
    if row.flags:
        at = _after_options(row, command)
        if at == len(command.words) - 1 and command.words[at].quoted:
            return parse_script(script_text(command, command.words[at]), outer=command)
    if (row.rest or row.flags) and at < len(command.words):
        start, end = command.words[at].start, command.words[-1].end
        text = _ESCAPED.sub(_unescaped, command.fragment.text)
        return parse_script(command.fragment.cut(start, end, text), outer=command)
    return None


def _after_options(row: Submitter, command: Command) -> int:
    """Return where the command to run begins among the words of one that submits it."""
    at = 1
    while at < len(command.words) and command.words[at].raw.startswith("-"):
        at += 1 if command.words[at].raw in row.flags else 2
    return at


def _unescaped(operator: re.Match[str]) -> str:
    """The operator, in as many characters."""
    return ("&&" if operator[1] else operator[2]).ljust(len(operator[0]))
