"""Start as many processes as there are GPUs, or request as many GPUs as there are processes."""

from __future__ import annotations

import re

from gpulint_rules.job.gpu103_fewer_processes_than_gpus import TooFew
from gpulint_rules.job.surplus import Surplus

from gpulint import regex
from gpulint.finding import Finding, Place
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.programs.package_lists import requires
from gpulint.project import Project
from gpulint_fixers.edits.comments import comment_beside
from gpulint_fixers.edits.gpu_requests import without

_NUMBER = regex.compile(r"""((?:--[\w-]+[=\s]\s*|num_processes:\s*)?)(?:("?\$\{?\w+(?::-\d+)?\}?"?)|(\d+))""")
"""An option's name, then a variable or a number."""
_STARTS_MORE = regex.compile(r"torch\.distributed\.(run|launch)|torchrun|accelerate|nproc[_-]per[_-]node|deepspeed")
_SPEAKS = regex.compile(r"\b(gpus?|process(es)?|devices?|cards?|tasks?|memory|oom|servers?|vllm)\b", re.IGNORECASE)
_JSON = regex.compile(r"(?<![\w./-])[\w./-]+\.json\b")
_BATCH = re.compile(rb"[\"']train_batch_size[\"']\s*:\s*\d")
"""DeepSpeed refuses a size of the global batch that does not fit the number of processes."""
_TORCH = ("torch", "pytorch")
_TAKES_NAMES = (1, 9)
"""The release of PyTorch from which on `torch.distributed.launch` takes `gpu` for the number of processes."""
_NEAR = 40
"""Lines behind the option in which the program of an ``srun`` is written, where a script has it inline."""


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found = finding.payload
    if isinstance(found, Surplus):
        return without(project, found)
    if not isinstance(found, TooFew):
        return Declined("the launcher sets no number of processes, and what to request depends on the program")
    if found.launcher == "jsrun":
        return Declined("more tasks would share the GPUs of a resource set; request more sets with one GPU each")
    if (set_at := found.set_at) is not None:
        where = f"{project.place(set_at.path)}:{set_at.span.line}"
        return Declined(f"{where} sets the number, which may be that of one machine elsewhere: pass the total here")
    document = project.document(found.place.path)
    if document is None or found.place.span.cell is not None:
        return Declined("the launcher is not in a plain file")
    span = found.place.span
    source = document.source
    following = "\n".join(source.line(number) for number in range(span.line, span.end_line + _NEAR))
    if comment_beside(source, span, _SPEAKS):
        return Declined("the comment beside it may say why there are fewer processes")
    if found.launcher == "deepspeed" and _fixes_batch(project, found.place, following):
        return Declined("a configuration of DeepSpeed sets `train_batch_size`, which other numbers of processes break")
    if found.launcher == "srun" and _STARTS_MORE.search(following):
        return Declined("the tasks start processes of their own")
    written = source.text[source.offset(span.line, span.column) : source.offset(span.end_line, span.end_column)]
    number = _NUMBER.fullmatch(written)
    if number is None:
        return Declined(f"the number of processes is not a literal here: {written!r}")
    value = int(number[3]) if number[3] else found.processes
    if value * found.gpus % found.processes:
        return Declined(f"no whole number here starts {found.gpus} processes on each node")
    option = source.line(span.line)[: span.column - 1] + number[1]
    by_node = found.launcher == "torchrun" and value == found.processes and "nproc" in option
    by_node = by_node and (not found.old_launcher or requires(project, found.place.path, _TORCH, _TAKES_NAMES))
    if number[2] and not by_node:
        return Declined(f"the number of processes is set elsewhere: {written!r}")
    text = number[1] + ("gpu" if by_node else str(value * found.gpus // found.processes))
    description = f"start {found.gpus} processes on each node; the global batch grows with them"
    return Fix(description, Safety.UNSAFE, (Edit(found.place.path, span, text),))


def _fixes_batch(project: Project, place: Place, command: str) -> bool:
    """Return whether a configuration file that a command names sets the size of the global batch."""
    names = _JSON.findall(command)
    paths = (folder / name for name in names for folder in (project.root, place.path.parent))
    return any(project.exists(path) and _BATCH.search(project.data(path)) for path in paths)


FIXER = Fixer("GPU103", fix)
