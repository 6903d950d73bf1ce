"""The request ``gpulint/jobs``: the GPU jobs of the open folders, what they start, and what was found there.

The answer is a list of jobs, those with the highest impact and the most GPUs first::

    {"name": "train", "gpus": 8, "uri": "file:///.../job.sbatch", "range": {...}, "folder": "file:///...", "files": [
        {"uri": "...", "path": "src/train.py", "role": "program", "findings": [
            {"code": "GPU303", "name": "...", "message": "...", "severity": "warning", "impact": "medium",
             "uri": "...", "range": {...}, "url": "https://..."}]}]}

``gpus`` is null where the number is unknown. ``role`` is ``launcher``, ``program`` or ``file``; files of the last kind
are only part of the answer if something was found in them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lsprotocol.types import Range

from gpulint.finding import Finding
from gpulint.lsp.places import Places
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.report import JobSummary, Report

METHOD = "gpulint/jobs"
SECONDS = 300.0
"""Seconds that the request may keep the worker busy; a change of a text ends it."""


@dataclass(frozen=True)
class FolderJobs:
    """The jobs of one folder, with the findings in their files."""

    folder: Path
    project: Project
    report: Report


def as_json(found: FolderJobs, places: Places) -> list[tuple[tuple[int, int], dict[str, Any]]]:
    """(worst impact and number of GPUs, the job as in the answer) of every job."""
    findings = defaultdict[Path, list[Finding]](list)
    for result in found.report.results:
        findings[result.finding.path].append(result.finding)
    jobs = []
    for job in found.report.jobs:
        worst = max((one.impact.level for path in job.files for one in findings.get(path, ())), default=0)
        made = {
            "name": job.name,
            "gpus": job.gpus,
            **_place(places.location(job.place.path, job.place.span)),
            "folder": found.folder.as_uri(),
            "files": [*_files(found.folder, job, findings, places)],
        }
        jobs.append(((int(worst), job.gpus or 0), made))
    return jobs


def _files(
    folder: Path, job: JobSummary, findings: dict[Path, list[Finding]], places: Places
) -> Iterator[dict[str, Any]]:
    """The launcher, then the programs in the order in which they start, then other files with findings."""
    roles = {job.place.path: "launcher", **dict.fromkeys(job.programs, "program")}
    for path in dict.fromkeys((*roles, *job.files)):
        there = findings.get(path, [])
        if path in roles or there:
            yield {
                "uri": path.as_uri(),
                "path": _shown(path, folder),
                "role": roles.get(path, "file"),
                "findings": [*_findings(there, places)],
            }


def _shown(path: Path, folder: Path) -> str:
    shown = path.relative_to(folder) if path.is_relative_to(folder) else path
    return shown.as_posix().encode("utf-8", "replace").decode()


def _findings(found: Iterable[Finding], places: Places) -> Iterator[dict[str, Any]]:
    for one in sorted(found, key=lambda one: (-one.impact.level, one.sort_key)):
        yield {
            "code": one.rule.code,
            "name": one.rule.name,
            "message": one.message,
            "severity": str(one.severity),
            "impact": str(one.impact.level),
            **_place(places.location(one.path, one.span)),
            "url": one.rule.url,
        }


def _place(location: Any) -> dict[str, Any]:
    where: Range = location.range
    return {
        "uri": location.uri,
        "range": {
            end: {"line": place.line, "character": place.character}
            for end, place in (("start", where.start), ("end", where.end))
        },
    }
