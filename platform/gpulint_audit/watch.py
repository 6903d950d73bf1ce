"""``gpulint audit watch``: the verdicts of the last hours as metrics for Prometheus.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import argparse
import copy
import http.server
import signal
import threading
import time
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from types import FrameType

from gpulint.escaping import say
from gpulint_audit import reporting
from gpulint_audit.audit import Audit
from gpulint_audit.errors import AuditError
from gpulint_audit.totals import HOUR

MOST_JOBS = 200
"""Jobs with metrics of their own: those that waste most."""
FILES = ("alerts.yml", "dashboard.json")
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def write_rules(folder: Path) -> None:
    """Write alert rules and the Grafana dashboard to a folder. Raises AuditError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AuditError(f"{folder}: {error.strerror or error}") from error
    for name in FILES:
        text = (resources.files("gpulint_audit") / "monitoring" / name).read_text(encoding="utf-8")
        reporting.write(folder / name, [text])
        say(f"wrote {folder / name}")


def metrics(audit: Audit) -> str:
    """An audit as metrics: sums by queue and cause, and verdicts of the worst jobs."""
    totals = audit.totals
    lines: list[str] = []
    lines += _metric("audit_utilization", "Utilization of all GPU time that was seen", [({}, totals["utilization"])])
    lines += _metric("audit_coverage", "Share of the GPU time that samples cover", [({}, totals["coverage"])])
    lines += _metric("audit_partial", "1 if some input could not be used", [({}, float(audit.problems.partial))])
    lines += _metric("audit_jobs", "Jobs in the window", [({}, totals["jobs"])])
    by_queue = [({"queue": row["queue"]}, row["wasted_gpu_hours"] * HOUR) for row in audit.groups("queue")]
    lines += _metric("audit_wasted_gpu_seconds", "GPU-seconds without activity in the window", by_queue)
    by_cause = [({"cause": cause}, lost * HOUR) for cause, lost in totals["causes"].items()]
    lines += _metric("audit_lost_gpu_seconds", "GPU-seconds that were not used in the window", by_cause)
    worst = audit.worst(MOST_JOBS)
    named = [({"job_name": v.job.job, "user": v.job.user, "queue": v.job.queue}, v) for v in worst]
    for name, text, figure in (
        ("utilization", "U of a job", "mean_utilization"),
        ("idle_at_end_seconds", "Seconds since the last activity of a job, as far as seen", "idle_at_end_seconds"),
        ("idle_at_start_seconds", "Seconds before the first activity of a job", "idle_at_start_seconds"),
        ("idle_slot_seconds", "GPU-seconds in idle slots of a job", "idle_slot_seconds"),
        ("never_used_gpus", "GPUs that a job has never used", "never_used_gpus"),
        ("unknown_gpus", "GPUs of a job without samples", "unknown_gpus"),
    ):
        lines += _metric(f"job_{name}", text, [(labels, verdict.facts[figure]) for labels, verdict in named])
    lines += _metric("job_seconds", "Life of a job in the window", [(labels, v.seconds) for labels, v in named])
    wasted = [(labels, v.wasted_s) for labels, v in named]
    lines += _metric("job_wasted_gpu_seconds", "GPU-seconds of a job without activity", wasted)
    return "\n".join(lines) + "\n"


def _metric(name: str, text: str, rows: Iterable[tuple[dict[str, str], float | None]]) -> list[str]:
    """One family of metrics; figures that are unknown have no line."""
    lines = [f"# HELP gpulint_{name} {text}.", f"# TYPE gpulint_{name} gauge"]
    for labels, value in rows:
        if value is not None:
            inner = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
            lines.append(
                f"gpulint_{name}{{{inner}}} {float(value):.10g}" if inner else f"gpulint_{name} {float(value):.10g}"
            )
    return lines


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Exporter:
    """Audits again and again, and keeps the last answer for whoever asks."""

    def __init__(self, args: argparse.Namespace, sources: list[str]) -> None:
        self._args, self._sources = args, sources
        self._text, self._success = "", 0.0
        self.stopped = threading.Event()

    def once(self) -> None:
        """Audit the window that ends now; if that fails, the old answer stays and its age tells."""
        from gpulint_audit import cli

        args = copy.copy(self._args)
        if args.until is None and args.since is None:
            args.since, args.until = str(time.time() - args.window), str(time.time())
        try:
            _, self._text = cli.make(args, self._sources, lambda audit, _: metrics(audit))
            self._success = time.time()
        except AuditError as error:
            say(f"gpulint: warning: {error}")

    def loop(self) -> None:
        """Audit until stopped."""
        while not self.stopped.is_set():
            self.once()
            self.stopped.wait(self._args.every)

    @property
    def page(self) -> str:
        age = _metric(
            "audit_last_success_timestamp_seconds", "When the last audit that worked ended", [({}, self._success)]
        )
        return self._text + "\n".join(age) + "\n"


def serve(args: argparse.Namespace, sources: list[str]) -> int:
    """Serve /metrics until SIGINT or SIGTERM. Raises AuditError if the address cannot be used."""
    host, _, port = args.listen.rpartition(":")
    if not port.isdigit():
        raise AuditError(f"--listen: {args.listen!r} is not HOST:PORT")
    if "-" in sources:
        raise AuditError("watch cannot read standard input again and again")
    exporter = Exporter(args, sources)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path.partition("?")[0] == "/metrics"
            body = exporter.page.encode() if known else b"gpulint audit: see /metrics\n"
            self.send_response(200 if known or self.path == "/" else 404)
            self.send_header("Content-Type", _TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    try:
        server = http.server.ThreadingHTTPServer((host or "127.0.0.1", int(port)), Handler)
    except (OSError, OverflowError) as error:
        raise AuditError(f"--listen: {args.listen}: {error}") from error

    def stop(_number: int, _frame: FrameType | None) -> None:
        exporter.stopped.set()
        threading.Thread(target=server.shutdown, daemon=True).start()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    say(f"serving metrics on http://{host or '127.0.0.1'}:{server.server_address[1]}/metrics")
    worker = threading.Thread(target=exporter.loop, daemon=True)
    worker.start()
    with server:
        server.serve_forever()
    worker.join(5)
    return 0
