"""The HTML report: one file that needs nothing else, neither network nor fonts nor libraries."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from gpulint import regex
from gpulint_probe.analysis.batch import BatchAdvice
from gpulint_probe.analysis.causes import Cause
from gpulint_probe.analysis.figures import Analysis, GpuFigures
from gpulint_probe.analysis.patterns import Pattern
from gpulint_probe.analysis.utilization import LOW
from gpulint_probe.analysis.verdict import Loss, worth_naming
from gpulint_probe.analysis.words import duration, number, percent, size
from gpulint_probe.reporting.buckets import Lane, cause_spans, lanes, thinned
from gpulint_probe.reporting.page import facts, headline, remarks, title
from gpulint_probe.reporting.svg import area, band, clock, tick_marks, ticks

BUCKETS = 600
COLOURS = {
    Cause.UNUSED: "unused", Cause.INSTALL: "install", Cause.DOWNLOAD: "download", Cause.START: "start",
    Cause.TAIL: "tail", Cause.CHECKPOINT: "checkpoint", Cause.EVALUATION: "evaluation", Cause.INPUT: "input",
    Cause.TRANSFER: "transfer", Cause.SMALL_BATCH: "batch", Cause.PAUSES: "pauses", Cause.LOW: "low",
    Cause.BUSY: "busy",
}  # fmt: skip
_CODE = regex.compile(r"`([^`]+)`")
_HINT = "Move the pointer over the timeline, or focus it and use the arrow keys, to read values."

_NOT_SEEN = "not seen"


@dataclass(frozen=True, slots=True)
class _Row:
    """A lane with its place in the page."""

    lane: Lane
    id: str

    @property
    def label(self) -> str:
        return self.lane.name if self.lane.gpu is None else f"GPU {self.lane.gpu} {self.lane.name}"

    @property
    def overall(self) -> str:
        """What stands beside the lane while nothing is pointed at."""
        known = [value for value in self.lane.values if value is not None]
        if not known:
            return "not seen"
        if self.lane.unit == "%":
            return f"mean {percent(sum(known) / len(known))}"
        if self.lane.unit == "B":
            return f"up to {size(max(known))}"
        return f"up to {max(known) / 1e6:.0f} MB/s"


def html(analysis: Analysis, *, advice: BatchAdvice | None = None) -> str:
    """The whole document."""
    rows = [_Row(lane, f"lane-{index}") for index, lane in enumerate(lanes(analysis, BUCKETS))]
    body = [
        f"<header><h1><code>{escape(title(analysis))}</code></h1><p class='faint'>{escape(facts(analysis))}</p>",
        f"<p>{escape(headline(analysis))}</p>{_tiles(analysis)}</header>",
        _losses(analysis),
        _timeline(analysis, rows),
        _list("Batch size", advice.lines if advice else []),
        _table(analysis),
        _list("Worth knowing", remarks(analysis)),
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return "\n".join([
        "<!doctype html>",
        "<html lang='en'><head><meta charset='utf-8'>",
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>gpulint probe: {escape(title(analysis))}</title>",
        f"<style>\n{_asset('report.css')}</style></head><body><main>",
        *(part for part in body if part),
        f"</main><script type='application/json' id='data'>{_data(analysis, rows)}</script>",
        f"<script>\n{_asset('report.js')}</script></body></html>\n",
    ])  # fmt: skip


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _data(analysis: Analysis, rows: list[_Row]) -> str:
    start = analysis.recording.started
    document = {
        "count": BUCKETS,
        "seconds": analysis.seconds,
        "hint": _HINT,
        "lanes": [
            {
                "id": row.id, "label": row.label, "unit": row.lane.unit, "overall": row.overall,
                "values": [None if value is None else float(f"{value:.4g}") for value in row.lane.values],
            }
            for row in rows
        ],
        "causes": [
            [series.info.index, begin - start, end - start, _titled(analysis, cause)]
            for series in analysis.seen.series
            for begin, end, cause in cause_spans(analysis, series.info.index, BUCKETS)
        ],
        "marks": [[mark.time_s - start, mark.text] for mark in thinned(analysis, BUCKETS)],
    }  # fmt: skip
    return json.dumps(document, separators=(",", ":")).replace("<", "\\u003c")


def _lost(analysis: Analysis) -> str:
    if analysis.utilization is None:
        return "not seen"
    return percent(sum(loss.share for loss in worth_naming(analysis.losses)))


def _titled(analysis: Analysis, cause: Cause) -> str:
    """A cause with the place that explains it."""
    finding = next((loss.findings[0] for loss in analysis.losses if loss.cause is cause and loss.findings), None)
    return cause.value if finding is None else f"{cause.value}, {finding.place} ({finding.code})"


def _tiles(analysis: Analysis) -> str:
    mean = analysis.utilization
    tiles = [
        (
            "GPU utilization (coarse)" if analysis.coarse else "SM activity",
            "not seen" if mean is None else percent(mean),
        ),
        ("duration", duration(analysis.seconds)),
        ("GPU time lost to a cause", _lost(analysis)),
    ]
    if analysis.speed is not None:
        tiles.append(("speed by the log", f"{analysis.speed.value:.3g} {analysis.speed.unit}"))
    if analysis.energy_j is not None:
        tiles.append(("GPU energy", f"{analysis.energy_j / 3.6e6:.3g} kWh"))
    low = mean is not None and mean <= LOW
    cells = (
        f"<div class='tile{' low' if low and not index else ''}'><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for index, (name, value) in enumerate(tiles)
    )
    return f"<dl class='tiles'>{''.join(cells)}</dl>"


def _losses(analysis: Analysis) -> str:
    found = worth_naming(analysis.losses)
    if analysis.utilization is None:
        return ""
    if not found:
        return "<h2>Where the GPU time went</h2><p>No loss of GPU time that has a cause to act on.</p>"
    return f"<h2>Where the GPU time went</h2><ol class='losses'>{''.join(map(_loss, found))}</ol>"


def _loss(loss: Loss) -> str:
    colour = f"background:var(--c-{COLOURS[loss.cause]})"
    details = [f"Seen: {reason}." for reason in loss.reasons[:1]]
    if loss.findings and loss.findings[0].help:
        details.append(f"Help: {loss.findings[0].help}")
    details += [f"Also: {finding}" for finding in loss.findings[1:]]
    lines = "".join(map(_detail, details))
    return (
        f"<li><div><div class='share'>{percent(loss.share)}</div><div class='meter'>"
        f"<span style='width:{100 * min(1, loss.share):.2f}%;{colour}'></span></div></div>"
        f"<div><p class='sentence'>{escape(loss.sentence)}</p>{lines}</div></li>"
    )


def _detail(line: str) -> str:
    """A line as a paragraph; what follows it is code to copy."""
    text, _, code = line.partition("\n")
    snippet = f"<pre>{escape(code)}</pre>" if code else ""
    shown = _CODE.sub(r"<code>\1</code>", escape(text))
    return f"<p class='faint'>{shown}</p>{snippet}"


def _timeline(analysis: Analysis, rows: list[_Row]) -> str:
    if analysis.seconds <= 0 or not rows:
        return ""
    begin, end = analysis.recording.started, analysis.seen.end
    parts = [
        "<h2>Timeline</h2>",
        "<section id='timeline' tabindex='0' role='group' aria-label='Timeline; arrow keys read values'>",
        f"<p id='readout' role='status'>{escape(_HINT)}</p><div id='hair'></div>",
    ]
    for row in rows:
        first = row.lane.kind in ("activity", "cpu")
        if row.lane.kind == "activity":
            assert row.lane.gpu is not None
            causes = cause_spans(analysis, row.lane.gpu, BUCKETS)
            spans = [(start, finish, COLOURS[cause], _titled(analysis, cause)) for start, finish, cause in causes]
            parts.append(_lane(row, area(row.lane, f"{row.label}, {row.overall}"), "", first))
            parts.append(
                _plain_lane("cause of the loss", "band", band(spans, begin, end, f"GPU {row.lane.gpu} causes"))
            )
        else:
            parts.append(_lane(row, area(row.lane, f"{row.label}, {row.overall}"), "thin", first))
    if marks := thinned(analysis, BUCKETS):
        parts.append(_plain_lane("log", "marks", tick_marks(marks, begin, end)))
    labels = "".join(_tick(at, analysis.seconds) for at in ticks(analysis.seconds))
    parts.append(f"<div class='lane'><div></div><div class='axis' aria-hidden='true'>{labels}</div></div></section>")
    present = dict.fromkeys(piece.cause for piece in analysis.pieces)
    legend = "".join(
        f"<li><i style='background:var(--c-{COLOURS[cause]})'></i>{escape(cause.value)}</li>"
        for cause in COLOURS
        if cause in present
    )
    return "".join([*parts, f"<ul class='legend' aria-label='Colours of the causes'>{legend}</ul>"])


def _tick(at: float, seconds: float) -> str:
    side = " class='left'" if at == 0 else " class='right'" if at > 0.97 * seconds else ""
    return f"<span{side} style='left:{100 * at / seconds:.2f}%'>{clock(at)}</span>"


def _lane(row: _Row, drawing: str, style: str, first: bool) -> str:
    return (
        f"<div class='lane{' first' if first else ''}'><div class='name'>{escape(row.label)}"
        f"<small id='{row.id}'>{escape(row.overall)}</small></div><div class='plot {style}'>{drawing}</div></div>"
    )


def _plain_lane(name: str, style: str, drawing: str) -> str:
    return f"<div class='lane'><div class='name faint'>{name}</div><div class='plot {style}'>{drawing}</div></div>"


def _table(analysis: Analysis) -> str:
    if not analysis.gpus:
        return ""
    heads = [
        "GPU", "utilization", "busy", "low plateau", "sudden drops", "idle", "held idle", "idle slots", "tensor cores",
        "memory traffic", "peak memory", "mean power", "unseen",
    ]  # fmt: skip
    rows = [_cells(gpu) for gpu in analysis.gpus]
    kept = [index for index in range(len(rows[0])) if any(row[index] != _NOT_SEEN for row in rows)]
    body = "".join(f"<tr>{''.join(f'<td>{escape(row[index])}</td>' for index in kept)}</tr>" for row in rows)
    head = "".join(f"<th scope='col'>{heads[index]}</th>" for index in kept)
    return f"<h2>GPUs</h2><div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _cells(gpu: GpuFigures) -> list[str]:
    def ratio(value: float | None) -> str:
        return _NOT_SEEN if value is None else percent(value)

    peak = _NOT_SEEN
    if gpu.peak_memory_bytes is not None:
        peak = f"{size(gpu.peak_memory_bytes)} ({ratio(gpu.peak_memory)})"
    return [
        f"{gpu.index}: {gpu.name}" + (f" {gpu.mig}" if gpu.mig else ""),
        ratio(gpu.utilization) + (" (coarse)" if gpu.coarse else ""),
        *(duration(gpu.pattern_seconds.get(pattern.value, 0.0)) for pattern in Pattern),
        duration(gpu.held_idle_seconds),
        number(gpu.idle_slots, "slot"),
        ratio(gpu.tensor_activity),
        ratio(gpu.dram_activity),
        peak,
        _NOT_SEEN if gpu.mean_power_w is None else f"{gpu.mean_power_w:.0f} W",
        duration(gpu.unseen_seconds),
    ]


def _list(title: str, lines: list[str]) -> str:
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<h2>{title}</h2><ul class='notes'>{items}</ul>"
