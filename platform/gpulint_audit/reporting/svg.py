"""The drawings of the page, as SVG: colours are the style sheet's, by class."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from html import escape
from typing import Any

from gpulint.escaping import printable
from gpulint_audit.timelines import BUCKETS

_LABEL, _LONGEST = 250, 520
_MOST_DAYS = 92
_MOST_QUEUES = 30


def bars(rows: Sequence[tuple[str, float, str]]) -> str:
    """Horizontal bars: (label, value, value in words)."""
    most = max(value for _, value, _ in rows) or 1.0
    height = 24 * len(rows)
    parts = []
    for place, (label, value, shown) in enumerate(rows):
        y, width = 24 * place, value / most * (_LONGEST - 70)
        parts.append(
            f'<text x="{_LABEL - 8}" y="{y + 16}" text-anchor="end">{_text(label)}</text>'
            f'<rect class="bar" x="{_LABEL}" y="{y + 4}" width="{max(width, 1):.1f}" height="16"/>'
            f'<text x="{_LABEL + width + 6:.1f}" y="{y + 16}">{_text(shown)}</text>'
        )
    return f'<svg viewBox="0 0 {_LABEL + _LONGEST} {height}" role="img">{"".join(parts)}</svg>'


def histogram(values: Sequence[float], weights: Sequence[float], unit: str) -> str:
    """Sums of weights over ten bins from 0 to 1."""
    bins = [0.0] * 10
    for value, weight in zip(values, weights, strict=True):
        bins[min(max(int(value * 10), 0), 9)] += weight
    most = max(bins) or 1.0
    parts = []
    for place, value in enumerate(bins):
        high = value / most * 120
        about = f"{place * 10}% to {place * 10 + 10}%: {value:,.1f} {unit}"
        parts.append(
            f'<rect class="bar" x="{place * 36 + 2}" y="{140 - high:.1f}" width="32" height="{high:.1f}">'
            f"<title>{_text(about)}</title></rect>"
            f'<text x="{place * 36}" y="156">{place * 10}</text>'
        )
    return f'<svg viewBox="0 0 380 162" role="img">{"".join(parts)}<text x="360" y="156">%</text></svg>'


def heat_map(found: dict[str, dict[str, tuple[float, float]]]) -> str:
    """Queues by days; a cell is the wasted share of the GPU time that was seen."""
    known = sorted({day for days in found.values() for day in days})
    first, last = date.fromisoformat(known[0]), date.fromisoformat(known[-1])
    shown = max(first, last - timedelta(days=_MOST_DAYS - 1))
    days = [(shown + timedelta(days=place)).isoformat() for place in range((last - shown).days + 1)]
    busiest = sorted(found, key=lambda queue: -sum(seen for seen, _ in found[queue].values()))[:_MOST_QUEUES]
    side, left = 18, 130
    parts = []
    for row, queue in enumerate(sorted(busiest)):
        y = row * side + 20
        parts.append(f'<text x="{left - 6}" y="{y + 13}" text-anchor="end">{_text(queue[:18] or "-")}</text>')
        for column, day in enumerate(days):
            seen, wasted = found[queue].get(day, (0.0, 0.0))
            if not seen:
                continue
            about = f"{queue or '-'} {day}: {wasted / seen:.0%} of {seen:,.1f} GPU-hours wasted"
            parts.append(
                f'<rect class="heat" fill-opacity="{0.06 + 0.94 * wasted / seen:.2f}" x="{left + column * side}"'
                f' y="{y}" width="{side - 2}" height="{side - 2}"><title>{_text(about)}</title></rect>'
            )
    for column in range(0, len(days), 7):
        parts.append(f'<text x="{left + column * side}" y="13">{days[column][5:]}</text>')
    width = left + max(len(days) * side, 60)
    return (
        f'<div class="wide"><svg style="width:{width * 1.2:.0f}px" viewBox="0 0 {width} {len(busiest) * side + 22}"'
        f' role="img">{"".join(parts)}</svg></div>'
    )


def timeline(rows: Sequence[dict[str, Any]]) -> str:
    """Utilization over the life of a job, idle time marked below; time without samples is hatched."""
    width, seen = 960 / BUCKETS, {row["place"]: row for row in rows}
    parts = []
    for place in range(BUCKETS):
        x, row = place * width, seen.get(place)
        used = row["utilization"] if row is not None else None
        if used is None:
            # A cell may be longer than a bucket: only stretches of several buckets are shown as unseen.
            near = any(other in seen for other in range(place - 3, place))
            if not near or not any(other in seen for other in range(place + 1, place + 4)):
                parts.append(f'<rect class="unseen" x="{x:.1f}" y="0" width="{width:.1f}" height="46"/>')
            continue
        if used <= 1e-6:
            parts.append(f'<rect class="idle" x="{x:.1f}" y="42" width="{width:.1f}" height="4"/>')
        high = used * 40
        parts.append(f'<rect class="used" x="{x:.1f}" y="{40 - high:.1f}" width="{width:.1f}" height="{high:.1f}"/>')
    return f'<svg class="timeline" viewBox="0 0 960 46" preserveAspectRatio="none" role="img">{"".join(parts)}</svg>'


def _text(value: str) -> str:
    return escape(printable(value))
