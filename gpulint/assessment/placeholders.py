"""Addresses that whoever copies a job is to replace (``s3://my-bucket/data``): nobody runs the job as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.kept_folders import own_jobs
from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.documents.base import Document
    from gpulint.launch.job import Job
    from gpulint.project import Project
    from gpulint.source import Span

_BUCKET = (
    r"(?:(?:my|your|some|an?|the|example)[-_]?(?:s3|gcs|gs|oci|azure|data|storage)?[-_]?"
    r"(?:bucket|container|account)|bucket|example)(?:[-_]?name)?(?:[-_]?here)?"
)
_ADDRESS = regex.compile(
    rf"\b(?:s3a?|gs|gcs|oci|oss|cos|r2|b2|wasbs?|abfss?|hdfs)://(?:<|\{{?\bYOUR\b|YOUR[-_]|{_BUCKET}(?=[/@\s\"']|$))"
    r"|https?://(?:<|(?:my|your)[-_]?(?:storage)?[-_]?account\.)|https?://(?:[\w-]+\.)?example\.(?:com|org)\b",
    re.IGNORECASE,
)
"""Of a bucket, or a server that does not exist."""
_ANY = regex.compile(
    r"(?<![\w${])(?:(?:YOUR|REPLACE)[-_]\w+|CHANGE[-_]?ME|BUCKET[-_]NAME|path[-_]to[-_]\w+|user(?:name)?@"
    r"|\w+@(?:host(?:name)?|(?:remote|my|your)[-_]?(?:host|server)\w*|server):)|/path/to/|<(?:your|bucket|path|user)\b[^>\n]{0,40}>",
    re.IGNORECASE,
)
"""In a command that copies data or downloads."""
_ASSIGNED = regex.compile(
    rf"\b(\w+)(?:=|:[ \t]+)[\"']?(?:(?:s3a?|gs|gcs|oci)://)?(?:{_BUCKET}|YOUR[-_]\w+|<[^>\n]{{1,40}}>)[\"']?(?:/|\s*$)",
    re.IGNORECASE | re.MULTILINE,
)
"""A variable with a placeholder for its value."""
_VARIABLE = regex.compile(r"\$\{?(\w+)")
_TRANSFERS = frozenset(
    (
        "aws gsutil s5cmd rclone gcloud azcopy az oci ossutil mc b2 rsync scp sftp hdfs hadoop wget curl aria2c axel"
    ).split()
)


def is_to_be_replaced(subject: Subject) -> bool:
    """Return whether each job around a finding has a placeholder for an address that it reads from or writes to; a copy
    of data, whether it has one itself."""
    project = subject.project
    if subject.cost is not None and subject.cost.kind == "data-copy":
        document, span = subject.document, subject.finding.span
        return (
            document is not None and subject.is_launcher and _has_placeholder(project, document, span, transfers=True)
        )
    jobs = own_jobs(subject)
    return bool(jobs) and all(_job_has_placeholder(project, job) for job in jobs)


@query
def _job_has_placeholder(project: Project, job: Job) -> bool:
    return any(
        _has_placeholder(project, item.document, item.command.span, transfers=item.command.name in _TRANSFERS)
        for item in job.commands
    )


def _has_placeholder(project: Project, document: Document, span: Span, *, transfers: bool) -> bool:
    source = document.cell_source(span.cell)
    text = " ".join(source.line(number) for number in range(span.line, span.end_line + 1))
    if _ADDRESS.search(text) or (transfers and _ANY.search(text)):
        return True
    return transfers and not _assigned(project, document, span.cell).isdisjoint(_VARIABLE.findall(text))


@query
def _assigned(project: Project, document: Document, cell: int | None) -> frozenset[str]:
    """Return the variables that a script, or a cell, sets to placeholders."""
    return frozenset(match[1] for match in _ASSIGNED.finditer(document.cell_source(cell).text))
