"""The drawings of the page, as SVG: colours are the style sheet's, by class."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import date, timedelta
from html import escape
from typing import Any

from gpulint.escaping import printable
from gpulint_audit.timelines import BUCKETS

_MOST_DAYS = 92
_MOST_QUEUES = 30


def bars(rows: Sequence[tuple[str, float, str]]) -> str:
    """Horizontal bars: (label, value, value in words). No SVG, so that text keeps its size on narrow screens."""
    most = max(value for _, value, _ in rows) or 1.0
    parts = [
        f'<span>{_text(label)}</span><span class="line"><i style="width:{value / most * 100:.1f}%"></i>'
        f"<span>{_text(shown)}</span></span>"
        for label, value, shown in rows
    ]
    return f'<div class="bars">{"".join(parts)}</div>'


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
        if value:
            shown = f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
            parts.append(f'<text x="{place * 36 + 18}" y="{136 - high:.1f}" text-anchor="middle">{shown}</text>')
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
    width = left + max(len(days) * side, (len(days) - 1) // 7 * 7 * side + 40)
    return (
        f'<div class="wide"><svg style="width:{width * 1.2:.0f}px" viewBox="0 0 {width} {len(busiest) * side + 22}"'
        f' role="img">{"".join(parts)}</svg></div>'
    )


def timeline(rows: Sequence[dict[str, Any]]) -> str:
    """Utilization over the life of a job, idle time marked below; time without samples is grey."""
    width = 960 / BUCKETS
    shown: list[float | None] = [None] * BUCKETS
    for row in rows:  # in the order of time: a sample stands for the buckets up to the next one
        for place in range(row["place"], max(row["until"], row["place"]) + 1):
            shown[place] = row["utilization"]
    parts, first = [], 0
    for used, same in itertools.groupby(shown):
        count = len(list(same))
        x, wide = first * width, count * width
        first += count
        if used is None:
            parts.append(f'<rect class="unseen" x="{x:.1f}" y="0" width="{wide:.1f}" height="46"/>')
        elif used <= 1e-6:
            parts.append(f'<rect class="idle" x="{x:.1f}" y="42" width="{wide:.1f}" height="4"/>')
        else:
            high = used * 40
            parts.append(f'<rect class="used" x="{x:.1f}" y="{40 - high:.1f}" width="{wide:.1f}" height="{high:.1f}"/>')
    return f'<svg class="timeline" viewBox="0 0 960 46" preserveAspectRatio="none" role="img">{"".join(parts)}</svg>'


def _text(value: str) -> str:
    return escape(printable(value))
