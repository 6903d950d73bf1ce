"""Messages to users in digest form: one for each user with waste, from a template."""

from __future__ import annotations

import string
from collections import defaultdict
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from gpulint.escaping import printable
from gpulint_audit.audit import Audit
from gpulint_audit.errors import AuditError
from gpulint_audit.reporting.text import mostly
from gpulint_audit.reporting.words import hours, money, percent
from gpulint_audit.verdicts import Verdict

_LEAST_SHARE = 0.05
"""Users whose jobs waste less of their time than this get no message."""
_MOST_JOBS = 5
ADVICE = {
    "never_used": "Request as many GPUs as the job uses, or start one process for each GPU (torchrun"
    " --nproc_per_node).",
    "idle_at_start": "Install packages and download data before the job, or in a job without a GPU.",
    "idle_at_end": "End the job when training ends; close notebooks, and move evaluation on the CPU and uploads to"
    " another job.",
    "idle_between": "Look for blocking checkpoints, downloads or evaluation on the CPU; `gpulint scan` finds many.",
    "short_idle": "The input pipeline cannot keep up: use more workers, pinned memory, or data prepared in advance.",
}


def render(audit: Audit, template: Path | None) -> str:
    """All messages, each with a line of hyphens before it. Raises AuditError if the template cannot be used."""
    name, text = _template(template)
    by_user: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in audit.verdicts:
        by_user[verdict.job.user].append(verdict)
    messages = []
    for user, found in sorted(by_user.items(), key=lambda item: -sum(verdict.wasted_s for verdict in item[1])):
        wasted, seen = sum(verdict.wasted_s for verdict in found), sum(verdict.seen_s for verdict in found)
        if not wasted or wasted < _LEAST_SHARE * seen:
            continue
        try:
            messages.append(string.Template(text).substitute(_values(audit, user, found, wasted, seen)))
        except KeyError as error:
            known = ", ".join(sorted(_values(audit, user, found, wasted, seen)))
            raise AuditError(f"{name}: unknown placeholder ${error.args[0]}; known are {known}") from error
        except ValueError as error:
            raise AuditError(f"{name}: {error} (write $$ for a dollar sign)") from error
    return "".join(f"{'-' * 72}\n{message.rstrip()}\n" for message in messages)


def _template(path: Path | None) -> tuple[str, str]:
    if path is None:
        shipped = resources.files("gpulint_audit") / "reporting" / "digest.txt"
        return "digest.txt", shipped.read_text(encoding="utf-8")
    try:
        return str(path), path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{path}: cannot read this template ({error})") from error


def _values(audit: Audit, user: str, found: list[Verdict], wasted: float, seen: float) -> dict[str, str]:
    worst = sorted(found, key=lambda verdict: -verdict.wasted_s)[:_MOST_JOBS]
    causes: dict[str, float] = defaultdict(float)
    for verdict in found:
        for cause, idle in verdict.idle.items():
            causes[cause] += idle
    main = max(causes, key=lambda cause: causes[cause])
    price, currency = audit.prices.gpu_hour, audit.prices.currency
    return {
        "user": printable(user) or "(unknown)",
        "jobs": str(len(found)),
        "gpu_hours": hours(seen / 3600),
        "wasted_gpu_hours": hours(wasted / 3600),
        "wasted_share": percent(wasted / seen),
        "wasted_cost": money(wasted / 3600 * price, currency) if price is not None else "unknown",
        "since": _day(min(verdict.start for verdict in found)),
        "until": _day(max(verdict.end for verdict in found)),
        "list": "\n".join(
            f"  {printable(verdict.job.job)}, since {_day(verdict.start)}: {_gpus(verdict.gpus)},"
            f" {percent(verdict.utilization)} used, {hours(verdict.wasted_s / 3600)} GPU-hours idle; {mostly(verdict)}"
            for verdict in worst
            if verdict.wasted_s
        ),
        "advice": ADVICE[main],
    }


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _gpus(count: float) -> str:
    return "1 GPU" if count == 1 else f"{count:g} GPUs"
