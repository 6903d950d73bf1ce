"""An audit as text, JSON, CSV, a self-contained page, and messages to users."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpulint_audit.audit import Audit
from gpulint_audit.errors import AuditError


def render(audit: Audit, wanted: str, by: list[str], args: argparse.Namespace, connection: Any) -> Iterable[str]:
    """The audit in a format, in pieces; ``connection`` has the samples, for timelines. Raises AuditError."""
    if wanted in ("json", "csv"):
        from gpulint_audit.reporting import json_

        return json_.render(audit, by) if wanted == "json" else json_.table(audit)
    if wanted == "html":
        from gpulint_audit.reporting.html import render as page

        return [page(audit, by, connection)]
    if wanted == "digest":
        from gpulint_audit.reporting.digest import render as messages

        return [messages(audit, args.template)]
    from gpulint_audit.reporting.text import render as summary

    terminal = sys.stdout.isatty() and args.output_file is None
    width = shutil.get_terminal_size((100, 24)).columns
    return [summary(audit, by, colour=terminal and not os.environ.get("NO_COLOR"), width=width)]


def write(path: Path, text: Iterable[str]) -> None:
    """Write a file in one step: whoever reads it finds the old content or all of the new. Raises AuditError."""
    try:
        handle, name = tempfile.mkstemp(prefix=".gpulint-", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(text)
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except OSError as error:
        raise AuditError(f"{path}: {error.strerror or error}") from error
