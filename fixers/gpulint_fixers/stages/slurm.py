"""What a CPU stage before a Slurm job looks like: its directives, and the script that submits both."""

from __future__ import annotations

import posixpath
import re
import shlex

from gpulint.documents import Document
from gpulint.documents.shell.scheduler_directives import Flag, flags
from gpulint.launch.job import Job

_KEPT = {
    "-A": "--account", "-t": "--time", "-D": "--chdir", "-M": "--clusters",
}  # fmt: skip
"""Options that the stage has as well, by their short names."""
_ALSO = frozenset({"--mail-type", "--mail-user", "--export", "--wckey", "--comment", "--workdir", "--get-user-env"})
"""Others that it has; where a comment has to name the project that pays, no job starts without it."""
_MEMORY = frozenset({"--mem", "--mem-per-cpu"})
_FOR_PROGRAMS = frozenset({"--cpus-per-task", *_MEMORY})
_NAMED = {"-J": "--job-name", "-o": "--output", "-e": "--error"}
_PLACES = {"-p": "--partition", "-q": "--qos", "-C": "--constraint"}
"""Options that say where a job runs."""
_TITLES = {"--qos": "QoS"}
_KIND = re.compile(r"\bgpu\b", re.IGNORECASE)
"""A constraint that tells nodes with GPUs from others, beside which a site may ask for one of its own; others tell one
GPU from another."""
_FOR_ALL = frozenset(
    """all any batch common compute cpu day days default defq general long main medium mixed normal parallel public
    regular serial shared short standard week work workq""".split()
)
"""Words of which the names of partitions consist that are not for one kind of node."""
_NODE = frozenset({"--nodelist"})
"""Options that name the job's node, whose own disk the stage then fills."""
_CHOOSE = "# It runs with the site's default {}: add one for jobs without GPUs, if there is none."
_OF_GPUS = re.compile(r"gpu|cuda|@[vahlt]\d", re.IGNORECASE)
"""Accounts and QoS from which hours on GPUs are paid."""
_CONTAINER = re.compile(r"(?:^|\s)(--container(?:-\w+)*)")
"""Options of Slurm and of Pyxis that have the batch script itself run in a container."""
_MOST = 16
"""Gigabytes that they get at most."""
_LONGEST = 4
"""Hours that downloads and copies get at most, and not those of a training."""


def refusal(job: Job) -> str | None:
    """Return why a Slurm job cannot get a stage before it."""
    document = job.document
    (script,) = document.scripts
    for directive in script.directives:
        if directive.leading and re.match(r"(hetjob|packjob)\b", directive.text.strip()):
            return "it is a heterogeneous job"
    if reason := in_container(job):
        return reason
    if any("--dependency" in directive.text for directive in script.directives if directive.leading):
        return "the job depends on another one already"
    return None


def in_container(job: Job) -> str | None:
    """Return why nothing that a job makes is there for another one, if its directives or the command that submits it
    put its script in a container."""
    if job.container is not None:
        option, path = job.container
        return (
            f"with `{option}` in {path.name} its script runs in a container, whose files only this job sees; put it "
            "into the image"
        )
    directives = (directive for script in job.document.scripts for directive in script.directives)
    leading = (directive.text for directive in directives if directive.leading)
    found = next((found for text in leading if (found := _CONTAINER.search(text))), None)
    if found is None:
        return None
    return f"with `{found[1]}` its script runs in a container, whose files only this job sees; put it into the image"


def header(document: Document, *, cpus: bool) -> list[str]:
    """Directives of the stage: those of the job that say who pays and where, and one task without GPUs.

    ``cpus`` keeps the number of cores, for programs that compute.
    """
    given = _given(document)
    kept = {*_KEPT.values(), *_ALSO, *_PLACES.values(), *(_FOR_PROGRAMS if cpus else ())}
    lines, name = list[str](), f"{document.path.stem}-prepare"
    kept |= _NODE if _is_pinned(given) else set()
    for long, flag in given:
        if long == "--job-name":
            name = f"{flag.value}-prepare"
        elif long in ("--output", "--error"):
            lines.append(_directive(long, _own_file(flag.value)))
        elif _is_for_gpus(long, flag.value) and not _is_pinned(given):
            continue
        elif long == "--time" and not cpus and _hours(flag.value) > _LONGEST:
            lines.append(_directive(long, f"{_LONGEST:02}:00:00"))
        elif (long in _MEMORY and not cpus and 0 < _gigabytes(flag.value) <= _MOST) or (
            long in kept and (long, flag.value) != ("--mem", "0")
        ):
            lines.append(_directive(long, _as_written(document, flag)))
    if names := site_defaults(document):
        lines.append(_CHOOSE.format(names))
    return [_directive("--job-name", name), *lines, _directive("--nodes", "1"), _directive("--ntasks", "1")]


def site_defaults(document: Document) -> str:
    """Return what the stage leaves to the site because the job's may be for GPUs only (``account and partition``)."""
    given = _given(document)
    if _is_pinned(given):
        return ""
    found = {
        _TITLES.get(long, long.removeprefix("--"))
        for long, flag in given
        if _is_for_gpus(long, flag.value) and (long != "--constraint" or _KIND.search(flag.value))
    }
    *most, last = sorted(found) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _given(document: Document) -> list[tuple[str, Flag]]:
    """Return the options of a job's directives with their long names."""
    (script,) = document.scripts
    long = {**_KEPT, **_NAMED, **_PLACES, "-c": "--cpus-per-task", "-w": "--nodelist"}
    directives = [item for item in script.directives if item.leading and item.prefix == "#SBATCH"]
    return [(long.get(flag.name, flag.name), flag) for item in directives for flag in flags(script, item)]


def _is_pinned(given: list[tuple[str, Flag]]) -> bool:
    """Return whether a job names its one node, where the stage runs as well."""
    return any(long in _NODE and not re.search(r"[,\[]", flag.value) for long, flag in given)


def _is_for_gpus(option: str, value: str) -> bool:
    """Return whether the value of an option may be for jobs with GPUs only."""
    if option == "--partition":
        return not {*re.split(r"[\W_]+", value.lower())} <= _FOR_ALL
    return option == "--constraint" or (option in ("--account", "--qos") and bool(_OF_GPUS.search(value)))


def _as_written(document: Document, flag: Flag) -> str:
    """The value of an option; a placeholder (``<your account>``) stays as it is."""
    span, source = flag.span, document.source
    text = source.text[source.offset(span.line, span.column) : source.offset(span.end_line, span.end_column)]
    return flag.value if text == flag.text else re.split(r"[=\s]", text, maxsplit=1)[-1]


def _hours(limit: str) -> int:
    """The whole hours of Slurm's ``[days-]hours:minutes:seconds`` or ``minutes``; 0 where they are unknown."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", limit)
    if found is None:
        return 0
    days, first = (int(part) if part else 0 for part in found.groups()[:2])
    if found[1]:
        return 24 * days + first
    return first if found[4] else first // 60


def _gigabytes(memory: str) -> float:
    """The gigabytes of Slurm's ``10G``, ``500M`` or ``4000``, of megabytes; 0 where they are unknown."""
    found = re.fullmatch(r"(\d+)([KMGT])?B?", memory, re.IGNORECASE)
    return int(found[1]) * {"K": 1e-6, "M": 1e-3, "G": 1, "T": 1e3}[(found[2] or "M").upper()] if found else 0


def _directive(name: str, value: str) -> str:
    quoted = value if re.fullmatch(r"[^\s'\"#]*", value) else '"' + value.replace('"', '\\"') + '"'
    return f"#SBATCH {name}={quoted}" if value else f"#SBATCH {name}"


def _own_file(path: str) -> str:
    """A file of the stage's own beside the job's; a job's number makes it one already."""
    if re.search(r"%[0-9]*[jJ]", path):
        return path
    own = re.sub(r"%[0-9]*A", "%j", re.sub(r"[_.-]?%[0-9]*a", "", path))  # the number of an array is that of a job
    if "%j" in own:
        return own
    folder, name = posixpath.split(own or path)
    return path if path == "/dev/null" else posixpath.join(folder, f"prepare-{name}")


def submission(document: Document, stage: str, *, goes_on: bool = False) -> str:
    """A script that submits the stage and then the job, which starts after a stage that failed only if it
    ``goes_on``."""
    after, ended = ("afterany", "ended") if goes_on else ("afterok", "ended well")
    job = shlex.quote(document.path.name)
    return f"""\
#!/bin/bash
# Submits {stage}, and {document.path.name} to start once that has {ended}.
# Run it in the folder in which you ran `sbatch` before; arguments go to both jobs.
set -euo pipefail
here=$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)
id=$(sbatch --parsable "$here"/{shlex.quote(stage)} "$@")
sbatch --dependency={after}:"${{id%%;*}}" --kill-on-invalid-dep=yes "$here"/{job} "$@"
"""
