"""Drawings of the HTML report's timeline. They have no size of their own: the page stretches them to its width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from gpulint_probe.recording import Mark
from gpulint_probe.reporting.buckets import Lane

_HEIGHT = 100


def area(lane: Lane, label: str) -> str:
    """A filled line; unseen time is shaded."""
    count, top = len(lane.values), lane.top or 1.0
    heights = [None if value is None else _HEIGHT * (1 - min(1.0, max(0.0, value / top))) for value in lane.values]
    fills, lines, gaps = [], [], []
    for begin, end in _runs([height is not None for height in heights]):
        # Steps rather than slopes: each value is a mean over its bucket.
        corners = " ".join(f"L{x} {heights[x]:.1f} L{x + 1} {heights[x]:.1f}" for x in range(begin, end))
        lines.append("M" + corners[1:])
        fills.append(f"M{begin} {_HEIGHT} {corners} L{end} {_HEIGHT} Z")
    for begin, end in _runs([height is None for height in heights]):
        gaps.append(f"<rect x='{begin}' width='{end - begin}' height='{_HEIGHT}' fill='var(--unseen)'/>")
    colour = f"var(--{lane.kind})"
    return _svg(
        count,
        label,
        f"{''.join(gaps)}<path d='{' '.join(fills)}' fill='{colour}' fill-opacity='.3'/>"
        f"<path d='{' '.join(lines)}' fill='none' stroke='{colour}' stroke-width='1.2'"
        " vector-effect='non-scaling-stroke'/>",
    )


def band(spans: Iterable[tuple[float, float, str, str]], start: float, end: float, label: str) -> str:
    """Colours along the time: (start, end, colour's name, title)."""
    scale = 1000 / (end - start)
    parts = (
        f"<rect x='{(begin - start) * scale:.2f}' width='{max(0.5, (finish - begin) * scale):.2f}' height='{_HEIGHT}'"
        f" fill='var(--c-{colour})'>"
        f"<title>{escape(title)}, {clock(begin - start)} to {clock(finish - start)}</title></rect>"
        for begin, finish, colour, title in spans
    )
    return _svg(1000, label, "".join(parts))


def tick_marks(marks: Sequence[Mark], start: float, end: float) -> str:
    """Lines of the log as strokes that show their text."""
    colours = {"checkpoint": "checkpoint", "eval": "evaluation", "install": "install", "download": "download"}
    scale = 1000 / (end - start)
    parts = (
        f"<rect x='{(mark.time_s - start) * scale:.2f}' width='2' height='{_HEIGHT}'"
        f" fill='var(--c-{colours.get(mark.kind, 'pauses')})'>"
        f"<title>{clock(mark.time_s - start)} {escape(mark.text)}</title></rect>"
        for mark in marks
        if start <= mark.time_s <= end
    )
    return _svg(1000, "Lines of the log", "".join(parts))


def ticks(seconds: float) -> list[float]:
    """About eight round times from 0 to the end."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
    step = next((step for step in steps if seconds / step <= 9), 86400 * max(1, round(seconds / 86400 / 8)))
    found = [float(step * n) for n in range(int(seconds / step) + 1)]
    return found if len(found) > 1 else [0.0, seconds]


def clock(seconds: float) -> str:
    """``4:05`` or ``1:04:05``."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def _svg(width: int, label: str, content: str) -> str:
    return (
        f"<svg viewBox='0 0 {width} {_HEIGHT}' preserveAspectRatio='none' role='img' aria-label='{escape(label)}'>"
        f"{content}</svg>"
    )


def _runs(flags: Sequence[bool]) -> Iterable[tuple[int, int]]:
    """(begin, end) of each run of True."""
    begin = None
    for index, flag in enumerate([*flags, False]):
        if flag and begin is None:
            begin = index
        elif not flag and begin is not None:
            yield begin, index
            begin = None
