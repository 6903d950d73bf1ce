"""Figures as people read them."""

from __future__ import annotations

CAUSES = {
    "never_used": "GPUs that are never used",
    "idle_at_start": "idle before the first activity",
    "idle_at_end": "idle after the last activity",
    "idle_between": "idle for 60 s or more in between",
    "short_idle": "idle for less than 60 s at a time",
    "low_activity": "active, but at less than 100%",
}


def percent(ratio: float | None) -> str:
    return "?" if ratio is None else f"{ratio:.1%}"


def hours(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def rate(value: float | None) -> str:
    """Bytes per second, such as 1.5 GB/s."""
    if value is None:
        return "?"
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if value >= size:
            return f"{value / size:.1f} {unit}/s"
    return f"{value / 1e3:.0f} kB/s"


def money(value: float, currency: str | None) -> str:
    return f"{value:,.2f}{f' {currency}' if currency else ''}"


def seconds(value: float | None) -> str:
    """Such as 96 s, 12 min or 3.5 h."""
    if value is None:
        return "?"
    if value < 600:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 3 * 3600 else f"{value / 3600:.1f} h"
