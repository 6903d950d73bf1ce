"""Take the request for GPUs out of a Slurm job that cannot use any."""

from __future__ import annotations

import re
from pathlib import Path

from gpulint import regex
from gpulint.documents import Document
from gpulint.documents.shell.scheduler_directives import Flag, flags
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.launch.job_index import JobIndex
from gpulint.launch.job_writers import is_stamped, writer_of
from gpulint.project import Project
from gpulint.query import query
from gpulint.rule import Kind
from gpulint.source import Span

_GPUS = frozenset(
    "--gpus -G --gpus-per-node --gpus-per-task --gpus-per-socket --gpu-bind --gpu-freq --ntasks-per-gpu --cpus-per-gpu "
    "--mem-per-gpu".split()
)
_OF_GPUS = regex.compile(
    r"gpu|cuda|(^|[-_])([abhlv][1-9]0{1,2}s?|[pkt][1-9]00?|gh200|rtx\w*|titan\w*)($|[-_\d])", re.IGNORECASE
)
"""Names of partitions whose nodes have GPUs, which the job would still occupy."""
_WORD = regex.compile(r"\w+")
_REQUEST = frozenset(
    """request requests requested requesting ask asks for a an the one two three four eight of per node nodes task tasks
    job number num count total type gpu gpus gres cuda device devices card cards graphics resource resources generic
    allocate allocated reserve reserved use used uses s with and to set specify""".split()
)
"""Words of comments that only say that GPUs are requested."""
_SIZES = frozenset({"--ntasks-per-gpu", "--cpus-per-gpu", "--mem-per-gpu"})


def fix(finding: Finding, project: Project) -> Fix | Declined:
    """Remove the directives for GPUs, whole lines only."""
    document = project.document(finding.path)
    is_script = document is not None and document.kind is Kind.SHELL
    if document is None or not is_script or not document.source.line(finding.span.line).startswith("#SBATCH"):
        return Declined("whether the node pool or queue takes jobs without GPUs is not visible here")
    if writer := writer_of(project, finding.path):
        return Declined(f"{project.place(writer)} writes this file; request no GPUs there")
    if is_stamped(finding.path):
        return Declined("a script wrote this file at the time in its name; request no GPUs there")
    (script,) = document.scripts
    edits, partition = list[Edit](), ""
    for item in script.directives:
        given = list(flags(script, item)) if item.leading and item.prefix == "#SBATCH" else []
        asked = [flag for flag in given if _asks(flag)]
        partition = next((flag.value for flag in given if flag.name in ("--partition", "-p")), partition)
        if any(flag.name in _SIZES for flag in asked):
            return Declined("cores, memory or tasks of the job are counted by its GPUs")
        if asked and len(asked) < len(given):
            line = document.source.line(item.span.line)
            edits += [Edit(document.path, _with_blank(line, flag.span), "") for flag in asked]
        elif asked and _says_more(document.source.line(item.span.line)):
            return Declined("the comment beside the request may say what it is for")
        elif asked:
            edits.append(Edit(document.path, Span(item.span.line, 1, item.span.line + 1, 1), ""))
    if _OF_GPUS.search(partition):
        return Declined(f"partition {partition!r} seems to have GPUs; choose one without them, and request none")
    if partition and (other := _job_with_gpus(project, document, partition)) is not None:
        return Declined(
            f"{other} requests GPUs in partition {partition!r} too, as do all other jobs there; choose a partition "
            "without GPUs, and request none"
        )
    if not edits and not any(item.span.line == finding.span.line for item in script.directives):
        return Declined("the script writes the job that requests them; change the text that it writes")
    if not edits:
        return Declined("the GPU request shares its line with something else")
    where = f"; partition {partition!r} has to take jobs without them" if partition else ""
    return Fix(f"request no GPUs{where}", Safety.UNSAFE, tuple(edits))


def _job_with_gpus(project: Project, own: Document, partition: str) -> str | None:
    """Return the first job of another script in a partition that no job without GPUs uses, as far as the tree shows."""
    found = _partitions(project).get(partition, ())
    others = [path for path, _ in found if path != own.path]
    return project.place(others[0]) if others and all(asks for _, asks in found) else None


@query
def _partitions(project: Project) -> dict[str, list[tuple[Path, bool]]]:
    """The scripts of Slurm jobs by their partition, each with whether it requests GPUs."""
    found: dict[str, list[tuple[Path, bool]]] = {}
    documents = dict.fromkeys(job.document for job in project.fact(JobIndex).jobs() if job.task.system == "slurm")
    for document in documents:
        given = [
            flag
            for script in document.scripts
            for item in script.directives
            if item.leading and item.prefix == "#SBATCH"
            for flag in flags(script, item)
        ]
        for flag in given:
            if flag.name in ("--partition", "-p"):
                asks = any(one.name in _SIZES or _asks(one) for one in given)
                found.setdefault(flag.value, []).append((document.path, asks))
    return found


def _asks(flag: Flag) -> bool:
    """Return whether an option requests GPUs and nothing else."""
    return flag.name in _GPUS or (flag.name == "--gres" and re.fullmatch(r"gpu(:[\w.]+)*", flag.value) is not None)


def _says_more(line: str) -> bool:
    """Return whether a comment beside a request says more than the request itself, such as ``# request 1 GPU``."""
    comment = line[1:].partition("#")[2]
    return any(word not in _REQUEST and not word.isdecimal() for word in _WORD.findall(comment.lower()))


def _with_blank(line: str, span: Span) -> Span:
    """The option with the blanks before it."""
    before = line[: span.column - 1]
    return Span(span.line, len(before.rstrip()) + 1, span.end_line, span.end_column)


FIXER = Fixer("GPU106", fix)
