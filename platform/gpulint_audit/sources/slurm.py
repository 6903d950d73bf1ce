"""Slurm's accounting: ``sacct --json`` or ``sacct --parsable2`` (also ``--parsable``), from a file or a pipe.

Fields: https://slurm.schedmd.com/sacct.html; requests for GPUs: ``gres/gpu=N`` in ReqTRES or AllocTRES.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpulint_audit.errors import AuditError, Problems
from gpulint_audit.sources import times
from gpulint_audit.sources.columns import Column, TableMapping
from gpulint_audit.sources.jobrows import RowReader
from gpulint_audit.tables import Tables

_GPU = re.compile(r"(?:^|,)gres/gpu(?::(?P<kind>[^=,]+))?=(?P<count>\d+)")
_NEEDED = ("JobIDRaw", "JobID", "Start")
_FIELDS = "job user queue submit start end gpus state name command workdir gpu_type"
_FORMAT = "JobID,User,Partition,Submit,Start,End,ReqTRES,AllocTRES,State,JobName,SubmitLine,WorkDir"


def load(source: str, timezone: str | None, problems: Problems) -> Tables:
    """Jobs only: Slurm does not record what GPUs did. ``source`` is a file, or - for standard input."""
    name = "standard input" if source == "-" else source
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{name}: cannot read this file ({error})") from error
    if not text.strip():
        raise AuditError(f"{name}: empty; pipe the output of sacct --json, or sacct --parsable2 --format {_FORMAT}")
    rows = _of_json(name, text) if text.lstrip().startswith("{") else _of_lines(name, text)
    columns = {field: Column(field) for field in _FIELDS.split()}
    reader = RowReader(name, TableMapping((), columns), times.zone(timezone), problems)
    return Tables([job for job in reader.jobs(rows) if job.gpus], None, [name])


def gpus(tres: str) -> tuple[float, str]:
    """Number and kind of the GPUs of a TRES list such as ``cpu=8,gres/gpu=2,gres/gpu:a100=2``."""
    plain, typed = 0.0, list[tuple[str, int]]()
    for found in _GPU.finditer(tres):
        if found["kind"]:
            typed.append((found["kind"], int(found["count"])))
        else:
            plain = float(found["count"])
    return plain or float(sum(count for _, count in typed)), ", ".join(kind for kind, _ in typed)


def _of_json(name: str, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        data = json.loads(text)
        jobs = data["jobs"]
    except (ValueError, KeyError, TypeError) as error:
        raise AuditError(f"{name}: not the whole output of sacct --json ({error})") from error
    for number, job in enumerate(jobs, 1):
        try:
            yield number, _row(job)
        except (KeyError, TypeError, AttributeError) as error:
            raise AuditError(f"{name}: job {number} is not as sacct --json writes it: no {error}") from error


def _row(job: Mapping[str, Any]) -> Mapping[str, Any]:
    time, tres = job["time"], job.get("tres") or {}
    lists = [tres.get("allocated") or [], tres.get("requested") or []]
    count, kind = 0.0, ""
    for entries in lists:
        found = [entry for entry in entries if entry.get("type") == "gres" and str(entry.get("name")).startswith("gpu")]
        plain = [entry for entry in found if entry["name"] == "gpu"]
        typed = [entry for entry in found if entry["name"] != "gpu"]
        count = float(sum(_number(entry["count"]) or 0 for entry in plain or typed))
        kind = ", ".join(entry["name"].partition(":")[2] for entry in typed)
        if count:
            break
    state = job.get("state")
    current = state.get("current") if isinstance(state, Mapping) else state
    return {
        "job": str(job["job_id"]), "user": job.get("user") or (job.get("association") or {}).get("user") or "",
        "queue": job.get("partition") or "", "submit": _number(time.get("submission")) or None,
        "start": _number(time.get("start")) or None, "end": _number(time.get("end")) or None, "gpus": count,
        "state": " ".join(current) if isinstance(current, list) else str(current or ""), "name": job.get("name") or "",
        "command": job.get("submit_line") or "", "workdir": job.get("working_directory") or "", "gpu_type": kind,
    }  # fmt: skip


def _number(value: Any) -> float | None:
    """Slurm writes numbers as they are, or as {"set": true, "infinite": false, "number": 5}."""
    if isinstance(value, Mapping):
        return float(value["number"]) if value.get("set") and not value.get("infinite") else None
    return None if value is None else float(value)


def _of_lines(name: str, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    lines = text.splitlines()
    header = lines[0].rstrip("|").split("|")
    if len(header) < 2 or not set(header) & set(_NEEDED):
        raise AuditError(f"{name}:1: neither JSON nor a header of sacct; use --parsable2 --format {_FORMAT}")
    if "Start" not in header:
        raise AuditError(f"{name}:1: no field Start; use --format {_FORMAT}")
    for number, line in enumerate(lines[1:], 2):
        values = line.split("|")
        if line.endswith("|") and len(values) == len(header) + 1:
            values.pop()
        if not line.strip():
            continue
        if len(values) != len(header):
            raise AuditError(f"{name}:{number}: {len(values)} fields, but the header has {len(header)}")
        row = dict(zip(header, values, strict=True))
        job = row.get("JobID") or row.get("JobIDRaw") or ""
        if "." in job:  # a step of the job before it
            continue
        count, kind = gpus(row.get("AllocTRES") or row.get("ReqTRES") or "")
        yield number, {
            "job": job, "user": row.get("User", ""), "queue": row.get("Partition", ""), "submit": row.get("Submit"),
            "start": row.get("Start"), "end": row.get("End"), "gpus": count, "state": row.get("State", ""),
            "name": row.get("JobName", ""), "command": row.get("SubmitLine", ""), "workdir": row.get("WorkDir", ""),
            "gpu_type": kind,
        }  # fmt: skip
