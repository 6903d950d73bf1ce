"""Packages that a job spec lists as data, moved to an image."""

from __future__ import annotations

import re
import shlex

from gpulint.documents import Document
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.launch.job import Job
from gpulint.programs.gpu_jobs import GpuJobs
from gpulint.project import Project
from gpulint.rule import Kind
from gpulint.source import Span
from gpulint_fixers.edits.images import Step, addition, built

_KEY = re.compile(r"(?P<indent>\s*)pip:\s*(?P<list>\[[^\]#]*\])?\s*")
_LOCAL = re.compile(r"-e\b|\.|/|~|.*\.(?:whl|txt|lock|gz|zip)$|.*[$`{}]")


def move(finding: Finding, project: Project, document: Document) -> Fix | Declined:
    """Take a ``pip:`` list out of a job spec and install the same in an image."""
    job = _job(project, document, finding.span)
    if job is None or document.kind is not Kind.JOBSPEC:
        return Declined("the packages are not installed by a command of the launcher")
    names = [name for name, _ in job.task.packages]
    if any(_LOCAL.match(name) for name in names):
        return Declined("the install uses code or files of the job, which an image would freeze")
    edit = _removal(document, finding.span.line)
    if edit is None:
        return Declined("the list of packages is no `pip:` entry with lines of its own")
    step = Step(f"pip install {' '.join(map(shlex.quote, names))}")
    target = built(project, job)
    added = addition(target, [step]) if target is not None else None
    if target is not None and isinstance(added, Edit):
        where = target.document.path.relative_to(project.root)
        what = f"install the packages in {where}, from which the image is built; build it again before the next start"
        return Fix(what, Safety.UNSAFE, (edit, added))
    return Declined("nothing in the tree builds the job's image: build one with the packages, and name it")


def _job(project: Project, document: Document, span: Span) -> Job | None:
    """The job that lists its first package at ``span``."""
    held = project.fact(GpuJobs).held_in(document.path)
    return next((job for job, _ in held if job.task.packages and job.task.packages[0][1] == span), None)


def _removal(document: Document, line: int) -> Edit | None:
    """Remove the entry around a line, if its mapping has another one."""
    source = document.source
    first = next((number for number in (line, line - 1) if _KEY.fullmatch(source.line(number))), None)
    key = _KEY.fullmatch(source.line(first)) if first is not None else None
    if first is None or key is None:
        return None
    indent, last = len(key["indent"]), first
    if not key["list"]:
        while source.line(last + 1).strip() and _belongs(source.line(last + 1), indent):
            last += 1
    around = [source.line(first - 1), source.line(last + 1)]
    if not any(len(text) - len(text.lstrip()) == indent and re.match(r"\s*[\w-]+:", text) for text in around):
        return None
    return Edit(document.path, Span(first, 1, last + 1, 1), "")


def _belongs(text: str, indent: int) -> bool:
    """Return whether a line is part of the entry above, which may have its items at its own indentation."""
    own = len(text) - len(text.lstrip())
    return own > indent or (own == indent and text.lstrip().startswith("- "))
