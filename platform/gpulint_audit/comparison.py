"""Two periods side by side: what changed since, and for whom."""

from __future__ import annotations

from typing import Any

from gpulint_audit.audit import Audit
from gpulint_audit.reporting.words import hours, percent
from gpulint_audit.totals import HOUR

_FIGURES = ("jobs", "gpu_hours", "utilization", "wasted_gpu_hours", "coverage")
_MOST_USERS = 5


def compare(before: Audit, after: Audit) -> dict[str, Any]:
    """Figures of both periods, the share of the GPU time that is wasted, and users by how much that share changed."""
    earlier, later = before.totals, after.totals
    users = _shares(before), _shares(after)
    both = users[0].keys() & users[1].keys()
    changes = sorted(((users[1][name] - users[0][name], name) for name in both), key=lambda change: change[0])
    return {
        "before": {name: earlier[name] for name in _FIGURES} | {"wasted_share": _share(earlier)},
        "after": {name: later[name] for name in _FIGURES} | {"wasted_share": _share(later)},
        "causes": {
            cause: {"before": _of(earlier, cause), "after": _of(later, cause)} for cause in later["causes"]
        },
        "users": [
            {"user": name, "before": users[0][name], "after": users[1][name], "change": change}
            for change, name in changes
        ],
    }  # fmt: skip


def lines(comparison: dict[str, Any]) -> list[str]:
    """The comparison in words."""
    before, after = comparison["before"], comparison["after"]
    if before["wasted_share"] is None or after["wasted_share"] is None:
        return ["one of the two periods has no samples"]
    found = [
        f"before: {_what(before)}; now: {_what(after)}",
        f"wasted share of the GPU time: {before['wasted_share']:.1%} before, {after['wasted_share']:.1%} now"
        f" ({(after['wasted_share'] - before['wasted_share']) * 100:+.1f} points)",
        f"GPU utilization: {before['utilization']:.1%} before, {after['utilization']:.1%} now",
    ]
    better = [row for row in comparison["users"] if row["change"] < -0.01][:_MOST_USERS]
    worse = [row for row in reversed(comparison["users"]) if row["change"] > 0.01][:_MOST_USERS]
    for title, rows in (("less waste (points)", better), ("more waste (points)", worse)):
        if rows:
            found.append(f"{title}: " + ", ".join(f"{row['user'] or '-'} ({row['change'] * 100:+.0f})" for row in rows))
    return found


def _what(figures: dict[str, Any]) -> str:
    jobs = figures["jobs"]
    return (
        f"{jobs} job{'s' * (jobs != 1)}, {hours(figures['gpu_hours'])} GPU-hours, {percent(figures['coverage'])} seen"
    )


def _share(totals: dict[str, Any]) -> float | None:
    seen = totals["seen_gpu_hours"]
    return totals["wasted_gpu_hours"] / seen if seen else None


def _of(totals: dict[str, Any], cause: str) -> float | None:
    seen = totals["seen_gpu_hours"]
    return totals["causes"][cause] / seen if seen else None


def _shares(audit: Audit) -> dict[str, float]:
    sums: dict[str, list[float]] = {}
    for verdict in audit.verdicts:
        known = sums.setdefault(verdict.job.user, [0.0, 0.0])
        known[0] += verdict.wasted_s
        known[1] += verdict.seen_s
    return {name: wasted / seen for name, (wasted, seen) in sums.items() if seen > 0.01 * HOUR}
