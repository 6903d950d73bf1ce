"""A finding as the gate passes it between processes, shows it and logs it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulint.finding import Finding, Severity
from gpulint.impact import Level


@dataclass(frozen=True)
class Hit:
    """One finding in the files of a submitted job. ``path`` is relative to the working directory where it is below."""

    code: str
    name: str
    path: str
    line: int
    message: str
    help: str
    severity: Severity
    impact: Level
    basis: str = ""
    url: str = ""

    def record(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "code": self.code,
            "name": self.name,
            "path": self.path,
            "line": self.line,
            "message": self.message,
            "help": self.help,
            "severity": str(self.severity),
            "impact": str(self.impact),
            "basis": self.basis,
            "url": self.url,
        }


def hit_of(finding: Finding, workdir: Path, shift: int = 0) -> Hit:
    """A finding; ``shift`` are lines that the gate added below the first one of its file."""
    line = finding.span.line
    path = Path(os.path.relpath(finding.path, workdir))
    return Hit(
        finding.rule.code,
        finding.rule.name,
        str(finding.path if path.parts[:1] == ("..",) else path),
        line if line == 1 else max(line - shift, 1),
        finding.message,
        finding.help,
        finding.severity,
        finding.impact.level,
        finding.impact.basis,
        finding.rule.url,
    )


def from_record(record: Mapping[str, Any]) -> Hit:
    """The inverse of :meth:`Hit.record`.

    Raises:
        KeyError: a field is missing, or a level is unknown.
    """
    return Hit(
        str(record["code"]),
        str(record["name"]),
        str(record["path"]),
        int(record["line"]),
        str(record["message"]),
        str(record.get("help", "")),
        Severity[str(record["severity"]).upper()],
        Level[str(record["impact"]).upper()],
        str(record.get("basis", "")),
        str(record.get("url", "")),
    )
